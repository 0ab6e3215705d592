//! The account's list (S1, section 7 of the contract): every sandbox that was ever started, for
//! clients that know the Containers API. All answers have its envelope.

use crate::dispatch::Call;
use crate::query::Query;
use crate::reply;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, Stream};
use hyper::StatusCode;
use hyper::header::HeaderValue;
use sandbox::{Instances, Sandboxes};
use std::io;
use types::{
    Application, Envelope, Error, ErrorCode, Instance, InstanceFilter, InstanceList, PageInfo,
    Result,
};

/// How the application is called where none is configured.
const APPLICATION: &str = "sandkeep";
/// The word for the one way in which its instances are started.
const POLICY: &str = "durable_object";
/// How many instances are read at once where all are asked for.
const CHUNK: u32 = 1000;

/// What the account's list answers to. What is `None` may be called anything.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// The account: a UUID or a name.
    pub id: Option<String>,
    /// The application: a UUID or a name.
    pub application: Option<String>,
}

/// List the account's applications
///
/// The one application of this server.
#[utoipa::path(get, path = "/client/v4/accounts/{account}/containers/applications", tag = "account", operation_id = "listApplications",
    params(
        ("name" = Option<String>, Query, description = "Only the application of this name."),
        ("per_page" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "At most so many."),
        ("page_token" = Option<String>, Query, description = "There is one page alone, and no token of it."),
    ),
    responses((status = 200, description = "The application.", body = Envelope<Vec<Application>>)))]
pub(crate) async fn applications(call: Call) -> Result<Response> {
    let account = account(&call)?;
    let per_page = per_page(&call.query)?.unwrap_or(100);
    if call.query.get("page_token").is_some() {
        return Err(Error::invalid("page_token", "page_token is not one of this list"));
    }
    let name = call.app.account.application.as_deref().unwrap_or(APPLICATION);
    let one = Application {
        id: name.to_owned(),
        account_id: account.to_owned(),
        name: name.to_owned(),
        scheduling_policy: POLICY.to_owned(),
    };
    let wanted = call.query.get("name").is_none_or(|wanted| wanted == name);
    let all: Vec<_> = wanted.then_some(one).into_iter().collect();
    let info = PageInfo { per_page: per_page.into(), next_page_token: None };
    reply::ok(&Envelope::new(all, Some(info)))
}

/// List the account's instances, first form
///
/// Every sandbox of every owner that was ever started, by name: also failed and destroyed ones, and
/// stopped ones for 90 days. Without `per_page` all of them, written as they are read. Starts,
/// wakes and prolongs nothing.
#[utoipa::path(get, path = "/client/v4/accounts/{account}/containers/applications/{application}/instances", tag = "account", operation_id = "listInstances",
    params(
        ("name_prefix" = Option<String>, Query, description = "Only names `<owner>/<session>` that start with this; case counts."),
        ("state" = Option<String>, Query, description = "`active`: provisioning, running and stopping ones; `not-active`: stopped and failed ones."),
        ("per_page" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "At most so many; all by default."),
        ("page_token" = Option<String>, Query, description = "`next_page_token` of the page before, with the same prefix and state."),
    ),
    responses((status = 200, description = "A page, or all.", body = Envelope<InstanceList>)))]
pub(crate) async fn instances(call: Call) -> Result<Response> {
    let application = application(&call)?.to_owned();
    let filter = filter(&call.query)?;
    let token = call.query.get("page_token");
    let per_page = per_page(&call.query)?;
    let sandboxes = &call.app.sandboxes;
    let limit = per_page.unwrap_or(CHUNK);
    let page = sandboxes.instances(&application, &filter, limit, token).await?;
    if per_page.is_none() && page.next.is_some() {
        let all = everything(sandboxes.clone(), application, filter, page);
        let json = HeaderValue::from_static("application/json");
        return Ok(reply::bytes(StatusCode::OK, json, Body::from_stream(all)));
    }
    let per_page = per_page.map_or(page.instances.len() as u64, u64::from);
    let info = PageInfo { per_page, next_page_token: page.next };
    reply::ok(&Envelope::new(InstanceList { instances: page.instances }, Some(info)))
}

/// List the account's instances
///
/// The same in pages, as an array.
#[utoipa::path(get, path = "/client/v4/accounts/{account}/containers/applications/{application}/instances-v2", tag = "account", operation_id = "listInstancesV2",
    params(
        ("name_prefix" = Option<String>, Query, description = "Only names `<owner>/<session>` that start with this; case counts."),
        ("state" = Option<String>, Query, description = "`active`: provisioning, running and stopping ones; `not-active`: stopped and failed ones."),
        ("per_page" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "At most so many; 100 by default."),
        ("page_token" = Option<String>, Query, description = "`next_page_token` of the page before, with the same prefix and state."),
    ),
    responses((status = 200, description = "A page.", body = Envelope<Vec<Instance>>)))]
pub(crate) async fn instances_v2(call: Call) -> Result<Response> {
    let application = application(&call)?;
    let filter = filter(&call.query)?;
    let per_page = per_page(&call.query)?.unwrap_or(100);
    let token = call.query.get("page_token");
    let page = call.app.sandboxes.instances(application, &filter, per_page, token).await?;
    let info = PageInfo { per_page: per_page.into(), next_page_token: page.next };
    reply::ok(&Envelope::new(page.instances, Some(info)))
}

/// Read one of the account's instances
///
/// One sandbox of the list, by its object id.
#[utoipa::path(get, path = "/client/v4/accounts/{account}/containers/applications/{application}/instances/{instance}", tag = "account", operation_id = "getInstance",
    responses((status = 200, description = "The sandbox.", body = Envelope<Instance>)))]
pub(crate) async fn instance(call: Call) -> Result<Response> {
    let application = application(&call)?;
    let found = match call.named("instance")?.parse() {
        Ok(object) => call.app.sandboxes.instance(application, &object).await?,
        Err(_) => None,
    };
    reply::ok(&Envelope::new(found.ok_or_else(|| missing("instance"))?, None))
}

fn missing(what: &str) -> Error {
    Error::new(ErrorCode::NotFound, format!("there is no such {what}"))
}

/// The account of the path. Errors: `NOT_FOUND` where it is not the one that is configured.
fn account(call: &Call) -> Result<&str> {
    known(call.named("account")?, call.app.account.id.as_deref(), "account")
}

/// The application of the path, whose account is right. Errors: `NOT_FOUND`.
fn application(call: &Call) -> Result<&str> {
    account(call)?;
    known(call.named("application")?, call.app.account.application.as_deref(), "application")
}

fn known<'a>(named: &'a str, configured: Option<&str>, what: &str) -> Result<&'a str> {
    // UUIDs are written in either case, names in one.
    let same = |one: &str| one == named || is_uuid(one) && one.eq_ignore_ascii_case(named);
    if configured.is_none_or(same) {
        return Ok(named);
    }
    Err(missing(what))
}

/// 32 hexadecimal digits, with or without hyphens.
fn is_uuid(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    let hyphens = text.bytes().filter(|byte| *byte == b'-').count();
    digits == 32 && matches!(hyphens, 0 | 4) && digits + hyphens == text.len()
}

fn per_page(query: &Query) -> Result<Option<u32>> {
    query.get("per_page").map(|_| query.number("per_page", 1..=1000, 0)).transpose()
}

fn filter(query: &Query) -> Result<InstanceFilter> {
    let active = match query.get("state") {
        None => None,
        Some("active") => Some(true),
        Some("not-active") => Some(false),
        Some(_) => return Err(Error::invalid("state", "state must be active or not-active")),
    };
    Ok(InstanceFilter { prefix: query.get("name_prefix").unwrap_or_default().to_owned(), active })
}

/// The whole list as text, a chunk at a time: however long it is, little of it is in memory, and
/// a caller that does not read holds nothing up. Where a chunk cannot be read the answer breaks
/// off, so that nobody takes a part for the whole.
fn everything(
    sandboxes: Sandboxes,
    application: String,
    filter: InstanceFilter,
    first: Instances,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let state =
        Everything { sandboxes, application, filter, page: Some(first), next: None, count: 0 };
    stream::try_unfold(state, async |mut state| {
        let Some(text) = state.text().await.map_err(io::Error::other)? else { return Ok(None) };
        Ok(Some((text, state)))
    })
}

struct Everything {
    sandboxes: Sandboxes,
    application: String,
    filter: InstanceFilter,
    /// A page that is read and not written.
    page: Option<Instances>,
    /// The token of what follows.
    next: Option<String>,
    /// How many were written.
    count: u64,
}

impl Everything {
    async fn text(&mut self) -> Result<Option<Bytes>> {
        let page = match (self.page.take(), self.next.take()) {
            (Some(page), _) => page,
            (None, Some(token)) => {
                let (app, filter) = (&self.application, &self.filter);
                self.sandboxes.instances(app, filter, CHUNK, Some(&token)).await?
            }
            (None, None) => return Ok(None),
        };
        let mut text = Vec::new();
        if self.count == 0 {
            text.extend(br#"{"success":true,"errors":[],"messages":[],"result":{"instances":["#);
        }
        for instance in &page.instances {
            if self.count > 0 {
                text.push(b',');
            }
            text.extend(reply::text(instance)?);
            self.count += 1;
        }
        if page.next.is_none() {
            let info = PageInfo { per_page: self.count, next_page_token: None };
            text.extend(br#"]},"result_info":"#);
            text.extend(reply::text(&info)?);
            text.push(b'}');
        }
        self.next = page.next;
        Ok(Some(text.into()))
    }
}
