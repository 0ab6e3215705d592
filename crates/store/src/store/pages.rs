//! The handle, as far as lists and labels are concerned.

use super::Store;
use crate::cursor::{List, Place};
use crate::ops::{account, lists, pages, quotas, sandboxes};
use crate::{AccountRow, Result, SandboxRow};
use std::collections::BTreeMap;
use types::{
    DirectoryEntry, InstanceFilter, ListFilter, ObjectId, Owner, Page, SandboxName, Settings,
};

/// Longest page.
const PAGE: u32 = 10_000;

impl Store {
    /// An owner's directory, oldest entry first, ties by name.
    pub async fn directory(&self, owner: &Owner) -> Result<Vec<DirectoryEntry>> {
        let owner = owner.clone();
        self.read(move |c| lists::directory(c, &owner)).await
    }

    /// A page of an owner's sandboxes, in the order of `filter`; 1 to 10 000 of them. Going on
    /// with the cursor shows each sandbox that is there all the while exactly once; where the
    /// order is by activity, each that is not active meanwhile.
    ///
    /// Errors: `Cursor` when it was not made for this owner and filter.
    pub async fn list(
        &self,
        owner: &Owner,
        filter: &ListFilter,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page> {
        self.page(Some(owner), filter, limit, cursor).await
    }

    /// The same of all owners'. Ties are ordered by `<owner>/<id>`, and so are names.
    pub async fn list_all_owners(
        &self,
        filter: &ListFilter,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page> {
        self.page(None, filter, limit, cursor).await
    }

    async fn page(
        &self,
        owner: Option<&Owner>,
        filter: &ListFilter,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page> {
        let limit = limit.clamp(1, PAGE);
        let (key, list) = (&self.inner.cursor_key, List::sandboxes(owner, filter));
        let place = cursor.map(|text| list.read(key, text)).transpose()?;
        let (o, f) = (owner.cloned(), filter.clone());
        // One more than asked tells whether there is a next page.
        let read = self.read(move |c| pages::page(c, o.as_ref(), &f, limit + 1, place.as_ref()));
        let mut sandboxes = read.await?;
        let more = sandboxes.len() > limit as usize;
        sandboxes.truncate(limit as usize);
        let last = sandboxes.last().filter(|_| more);
        let next_cursor = last.map(|row| list.write(key, &pages::place(owner, filter.sort, row)));
        Ok(Page { sandboxes, next_cursor })
    }

    /// A page of the sandboxes that were ever started, by name, with a token for the next one;
    /// those that stopped before `since_ms` left out. 1 to 10 000 of them.
    ///
    /// Errors: `Cursor` when it was not made for this filter.
    pub async fn account(
        &self,
        filter: &InstanceFilter,
        since_ms: i64,
        limit: u32,
        token: Option<&str>,
    ) -> Result<(Vec<AccountRow>, Option<String>)> {
        let limit = limit.clamp(1, PAGE);
        let (key, list) = (&self.inner.cursor_key, List::account(filter));
        let after = token.map(|text| list.read(key, text)).transpose()?.map(|place| place.name);
        let f = filter.clone();
        let read = self.read(move |c| account::page(c, &f, since_ms, limit + 1, after.as_deref()));
        let mut rows = read.await?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let last = rows.last().filter(|_| more);
        let next = last.map(|row| list.write(key, &Place { at: 0, name: row.name.clone() }));
        Ok((rows, next))
    }

    /// One of them, by its object.
    pub async fn account_one(
        &self,
        object: &ObjectId,
        since_ms: i64,
    ) -> Result<Option<AccountRow>> {
        let object = *object;
        self.read(move |c| account::one(c, &object, since_ms)).await
    }

    /// [`Store::create`] with labels.
    pub async fn create_labelled(
        &self,
        name: &SandboxName,
        settings: &Settings,
        env_vars: &BTreeMap<String, String>,
        labels: &BTreeMap<String, String>,
        now_ms: i64,
        alarm_at: Option<i64>,
    ) -> Result<(bool, SandboxRow)> {
        let (name, settings) = (name.clone(), settings.clone());
        let (vars, labels) = (env_vars.clone(), labels.clone());
        let table = self.quotas();
        self.write(Some(&name.object_id()), false, move |c| {
            let (made, row) =
                sandboxes::create(c, &name, &settings, &vars, &labels, now_ms, alarm_at)?;
            if made {
                quotas::check(c, &table, &name.owner, &quotas::NEW)?;
            }
            Ok((made, row))
        })
        .await
    }

    /// [`Store::update`] with labels; `None` leaves them.
    pub async fn update_labelled(
        &self,
        object: &ObjectId,
        settings: &Settings,
        env_vars: &BTreeMap<String, String>,
        labels: Option<&BTreeMap<String, String>>,
        alarm_at: Option<i64>,
    ) -> Result<Option<SandboxRow>> {
        let (id, settings) = (*object, settings.clone());
        let (vars, labels) = (env_vars.clone(), labels.cloned());
        self.write(Some(object), false, move |c| {
            sandboxes::update(c, &id, &settings, &vars, labels.as_ref(), alarm_at)
        })
        .await
    }
}
