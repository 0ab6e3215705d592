//! The handle, as far as quotas are concerned.

use super::Store;
use crate::Result;
use crate::ops::{quotas, sandboxes};
use std::sync::{Arc, PoisonError};
use types::{ObjectId, Owner, QuotaTable, QuotaUse};

impl Store {
    /// The limits that are in force; none at first.
    pub fn quotas(&self) -> Arc<QuotaTable> {
        self.inner.quotas.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts limits in force, for all clones. What is there already stays, however much it is.
    pub fn set_quotas(&self, table: QuotaTable) {
        let table = Arc::new(table);
        *self.inner.quotas.lock().unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// What an owner has.
    pub async fn usage(&self, owner: &Owner) -> Result<QuotaUse> {
        let owner = owner.clone();
        self.read(move |c| quotas::usage(c, &owner)).await
    }

    /// What all owners have together.
    pub async fn usage_of_all(&self) -> Result<QuotaUse> {
        self.read(quotas::usage_of_all).await
    }

    /// Notes how many bytes lie in the workspace of an object. Unknown objects are fine.
    pub async fn measured(&self, object: &ObjectId, bytes: u64) -> Result<()> {
        let id = *object;
        self.write(Some(object), false, move |c| sandboxes::measured(c, &id, bytes)).await
    }
}
