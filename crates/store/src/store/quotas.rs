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

    /// Puts limits in force as [`Store::set_quotas`] does, and keeps them for
    /// [`Store::restore_quotas`]. They are in force also where they cannot be kept. Urgent.
    pub async fn keep_quotas(&self, table: QuotaTable) -> Result<()> {
        // Numbers and names alone: there is always a text of them.
        let text = serde_json::to_string(&table).unwrap_or_default();
        self.set_quotas(table);
        self.write(None, true, move |c| quotas::keep(c, &text)).await
    }

    /// Puts those in force that a server kept last: whoever opens the store beside no server is
    /// held to them too.
    pub async fn restore_quotas(&self) -> Result<()> {
        let kept = self.read(quotas::kept).await?;
        // What another release wrote and this one cannot read limits nothing.
        if let Some(table) = kept.and_then(|text| serde_json::from_str(&text).ok()) {
            self.set_quotas(table);
        }
        Ok(())
    }

    /// What an owner has; `now_ms`: which tokens are expired.
    pub async fn usage(&self, owner: &Owner, now_ms: i64) -> Result<QuotaUse> {
        let owner = owner.clone();
        self.read(move |c| quotas::usage(c, &owner, now_ms)).await
    }

    /// What all owners have together, without tokens.
    pub async fn usage_of_all(&self) -> Result<QuotaUse> {
        self.read(quotas::usage_of_all).await
    }

    /// How many bytes lie in the workspaces of an owner, and in those of all, without one's own.
    pub async fn bytes_elsewhere(&self, owner: &Owner, object: &ObjectId) -> Result<(u64, u64)> {
        let (owner, object) = (owner.clone(), *object);
        self.read(move |c| quotas::elsewhere(c, &owner, &object)).await
    }

    /// Notes how many bytes lie in the workspace of an object. Unknown objects are fine.
    pub async fn measured(&self, object: &ObjectId, bytes: u64) -> Result<()> {
        let id = *object;
        self.write(Some(object), false, move |c| sandboxes::measured(c, &id, bytes)).await
    }
}
