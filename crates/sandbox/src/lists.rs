//! Lists: rows of the store, and nothing else. They wake, start and prolong nothing, and ask no
//! instance.

use crate::service::Sandboxes;
use crate::{account, errors};
use types::{
    DirectoryEntry, Error, Instance, InstanceFilter, ListFilter, ObjectId, Owner, Page, Result,
};

/// A page of the account's list.
#[derive(Debug, Clone, PartialEq)]
pub struct Instances {
    /// By name.
    pub instances: Vec<Instance>,
    /// For the next page; `None` on the last.
    pub next: Option<String>,
}

impl Sandboxes {
    /// The owner's directory, oldest entry first, ties by name (S1).
    pub async fn directory(&self, owner: &Owner) -> Result<Vec<DirectoryEntry>> {
        self.world.store.directory(owner).await.map_err(errors::of_store)
    }

    /// A page of the owner's sandboxes; of all owners' where none is named. Errors:
    /// `VALIDATION_FAILED` of `label` and `cursor`.
    pub async fn list(
        &self,
        owner: Option<&Owner>,
        filter: &ListFilter,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page> {
        filter.validate()?;
        let store = &self.world.store;
        let page = match owner {
            Some(owner) => store.list(owner, filter, limit, cursor).await,
            None => store.list_all_owners(filter, limit, cursor).await,
        };
        page.map_err(errors::of_store)
    }

    /// A page of all sandboxes that were ever started, by name, destroyed ones among them (S1);
    /// what stopped more than 90 days ago is left out. `application` is repeated in each.
    /// Errors: `VALIDATION_FAILED` of `page_token`.
    pub async fn instances(
        &self,
        application: &str,
        filter: &InstanceFilter,
        limit: u32,
        token: Option<&str>,
    ) -> Result<Instances> {
        let page = self.world.store.account(filter, self.oldest_stop(), limit, token).await;
        let (rows, next) = page.map_err(|error| match error {
            store::Error::Cursor { .. } => Error::invalid(
                "page_token",
                "page_token is not one of this list: take next_page_token of a page with the same name_prefix and state",
            ),
            other => errors::of_store(other),
        })?;
        let up = self.world.instances();
        let told = |row| account::told(row, application, |object| up.contains_key(object));
        Ok(Instances { instances: rows.into_iter().map(told).collect(), next })
    }

    /// One of them; `None` where there is none.
    pub async fn instance(&self, application: &str, object: &ObjectId) -> Result<Option<Instance>> {
        let row = self.world.store.account_one(object, self.oldest_stop()).await;
        let row = row.map_err(errors::of_store)?;
        let up = self.world.instances();
        Ok(row.map(|row| account::told(row, application, |object| up.contains_key(object))))
    }

    fn oldest_stop(&self) -> i64 {
        self.world.clock.now_ms().saturating_sub_unsigned(self.world.upkeep.retention.sandboxes)
    }
}
