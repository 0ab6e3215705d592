//! Lists of sandboxes, page by page or one by one.

use crate::http::path_segment;
use crate::{Client, Error, Result};
use reqwest::Method;
use std::collections::VecDeque;
use types::{
    Envelope, Instance, InstanceFilter, ListFilter, Owner, Page, SandboxSummary, Sort, State,
};

/// Which page of which sandboxes.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Which sandboxes, in which order.
    pub filter: ListFilter,
    /// Those of all owners, as an administrator.
    pub all_owners: bool,
    /// With `all_owners`: only those of this one.
    pub owner: Option<Owner>,
    /// How many at most, 1–1000; absent: the server's choice.
    pub limit: Option<u32>,
    /// `nextCursor` of the page before.
    pub cursor: Option<String>,
}

impl From<ListFilter> for ListQuery {
    fn from(filter: ListFilter) -> Self {
        Self { filter, ..Self::default() }
    }
}

impl ListQuery {
    fn path(&self) -> &'static str {
        if self.all_owners { "/v1/admin/sandboxes" } else { "/v1/sandboxes" }
    }

    fn pairs(&self) -> Vec<(&'static str, String)> {
        let filter = &self.filter;
        let state = filter.state.map(|state| match state {
            State::Running => "running",
            State::Stopped => "stopped",
        });
        let time = |ms: Option<i64>| ms.map(|ms| ms.to_string());
        let sort = Some(filter.sort).filter(|sort| *sort != Sort::default());
        let all = [
            ("prefix", filter.prefix.clone()),
            ("state", state.map(str::to_owned)),
            ("createdAfter", time(filter.created.after)),
            ("createdBefore", time(filter.created.before)),
            ("activeAfter", time(filter.active.after)),
            ("activeBefore", time(filter.active.before)),
            ("sort", sort.map(|sort| sort.as_str().to_owned())),
            ("limit", self.limit.map(|n| n.to_string())),
            ("cursor", self.cursor.clone()),
            ("owner", self.owner.as_ref().filter(|_| self.all_owners).map(Owner::to_string)),
        ];
        let labels = filter.labels.iter().map(|(n, v)| ("label", format!("{n}={v}")));
        all.into_iter().filter_map(|(k, v)| Some((k, v?))).chain(labels).collect()
    }
}

/// Sandboxes one by one, over all pages; the next page is asked for when it is needed.
#[derive(Debug)]
pub struct SandboxList {
    client: Client,
    /// Of the next page; `None` behind the last.
    query: Option<ListQuery>,
    page: VecDeque<SandboxSummary>,
}

impl SandboxList {
    /// The next sandbox; `None` behind the last. After an error the same page may be asked for
    /// again.
    pub async fn next(&mut self) -> Result<Option<SandboxSummary>> {
        loop {
            if let Some(sandbox) = self.page.pop_front() {
                return Ok(Some(sandbox));
            }
            let Some(query) = &mut self.query else { return Ok(None) };
            let page = self.client.list(query).await?;
            self.page = page.sandboxes.into();
            match page.next_cursor {
                None => self.query = None,
                // A server that repeats a cursor would hold its caller for ever.
                next if next == query.cursor => {
                    return Err(Error::Protocol("the server repeats a page".to_owned()));
                }
                next => query.cursor = next,
            }
        }
    }
}

impl Client {
    /// `GET /v1/sandboxes`, or `GET /v1/admin/sandboxes`: one page.
    pub async fn list(&self, query: &ListQuery) -> Result<Page> {
        self.json(self.request(Method::GET, query.path()).query(&query.pairs())).await
    }

    /// Every sandbox from `query` on, one by one.
    pub fn sandboxes(&self, query: impl Into<ListQuery>) -> SandboxList {
        let mut query = query.into();
        query.limit.get_or_insert(1000);
        SandboxList { client: self.clone(), query: Some(query), page: VecDeque::new() }
    }

    /// Every sandbox from `query` on.
    pub async fn list_all(&self, query: impl Into<ListQuery>) -> Result<Vec<SandboxSummary>> {
        let mut list = self.sandboxes(query);
        let mut all = Vec::new();
        while let Some(sandbox) = list.next().await? {
            all.push(sandbox);
        }
        Ok(all)
    }
}

/// Which page of the account's instances. [`Client::all_instances`] has all pages.
#[derive(Debug, Clone, Default)]
pub struct InstanceQuery {
    /// Which instances.
    pub filter: InstanceFilter,
    /// How many at most, 1–1000; absent: 100.
    pub per_page: Option<u32>,
    /// `next_page_token` of the page before.
    pub page_token: Option<String>,
}

impl Client {
    /// `GET /client/v4/accounts/{account}/containers/applications/{application}/instances-v2`:
    /// one page of all sandboxes that were ever started, by name.
    pub async fn instances(
        &self,
        account: &str,
        application: &str,
        query: &InstanceQuery,
    ) -> Result<(Vec<Instance>, Option<String>)> {
        let (account, application) =
            (path_segment(account.as_bytes()), path_segment(application.as_bytes()));
        let path = format!(
            "/client/v4/accounts/{account}/containers/applications/{application}/instances-v2"
        );
        let prefix = Some(query.filter.prefix.clone()).filter(|prefix| !prefix.is_empty());
        let state = query.filter.active.map(|active| if active { "active" } else { "not-active" });
        let pairs = [
            ("name_prefix", prefix),
            ("state", state.map(str::to_owned)),
            ("per_page", query.per_page.map(|n| n.to_string())),
            ("page_token", query.page_token.clone()),
        ];
        let pairs: Vec<_> = pairs.into_iter().filter_map(|(k, v)| Some((k, v?))).collect();
        let page: Envelope<Vec<Instance>> =
            self.json(self.request(Method::GET, &path).query(&pairs)).await?;
        Ok((page.result, page.result_info.and_then(|info| info.next_page_token)))
    }

    /// The same, all pages from `query` on.
    pub async fn all_instances(
        &self,
        account: &str,
        application: &str,
        mut query: InstanceQuery,
    ) -> Result<Vec<Instance>> {
        query.per_page.get_or_insert(1000);
        let mut all = Vec::new();
        loop {
            let (mut page, next) = self.instances(account, application, &query).await?;
            all.append(&mut page);
            match next {
                None => return Ok(all),
                next if next == query.page_token => {
                    return Err(Error::Protocol("the server repeats a page".to_owned()));
                }
                next => query.page_token = next,
            }
        }
    }
}
