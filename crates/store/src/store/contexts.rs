//! The handle, as far as code contexts are concerned.

use super::Store;
use crate::ops::{checkpoints, contexts};
use crate::{CheckpointRow, ContextRow, ContextState, FreshPack, Result, WrittenPack};
use types::ObjectId;

impl Store {
    /// The contexts of an object, oldest first.
    pub async fn contexts(&self, object: &ObjectId) -> Result<Vec<ContextRow>> {
        let object = *object;
        self.read(move |c| contexts::list(c, &object)).await
    }

    /// One context of an object.
    pub async fn context(&self, object: &ObjectId, id: &str) -> Result<Option<ContextRow>> {
        let (object, id) = (*object, id.to_owned());
        self.read(move |c| contexts::get(c, &object, &id)).await
    }

    /// Every engine build, as hashes of module and base image, that a context or a checkpoint
    /// needs.
    pub async fn builds_in_use(&self) -> Result<Vec<(String, String)>> {
        self.read(contexts::builds).await
    }

    /// The checkpoints of a context, oldest first; `None`: no such context.
    pub async fn checkpoints(
        &self,
        object: &ObjectId,
        context: &str,
    ) -> Result<Option<Vec<CheckpointRow>>> {
        let (object, context) = (*object, context.to_owned());
        self.read(move |c| checkpoints::list(c, &object, &context)).await
    }

    /// Makes a context, in the life of the sandbox that began at `life` (its `created_at`).
    ///
    /// Errors: `Missing` where that life is over or ends; `TooMany` where it has `limit` of them;
    /// `Quota`.
    pub async fn create_context(
        &self,
        object: &ObjectId,
        life: i64,
        row: &ContextRow,
        limit: u32,
    ) -> Result<()> {
        let (id, row, table) = (*object, row.clone(), self.quotas());
        self.write(Some(object), false, move |c| {
            contexts::create(c, &table, &id, life, &row, limit)
        })
        .await
    }

    /// Saves what an execution left of a context, all at once, and that its sandbox was active; with
    /// it what its pack holds, where the file is not on the disk. `false`: the context was deleted
    /// meanwhile, or its sandbox goes; nothing was kept.
    pub async fn save_context(
        &self,
        object: &ObjectId,
        context: &str,
        state: &ContextState,
        pack: Option<WrittenPack>,
    ) -> Result<bool> {
        let (id, context, state) = (*object, context.to_owned(), state.clone());
        self.write(Some(object), false, move |c| {
            contexts::save(c, &id, &context, &state, pack.as_ref())
        })
        .await
    }

    /// All packs whose files may not be on the disk.
    pub async fn fresh_packs(&self) -> Result<Vec<FreshPack>> {
        self.read(contexts::fresh).await
    }

    /// What one of them holds; `None`: it is none any more.
    pub async fn fresh_bytes(&self, pack: &FreshPack) -> Result<Option<Vec<u8>>> {
        let pack = pack.clone();
        self.read(move |c| contexts::fresh_bytes(c, &pack)).await
    }

    /// The files of these packs could not be synced, and have no kernel any more that is sure to have
    /// them. Urgent.
    pub async fn packs_lost(&self, packs: Vec<FreshPack>) -> Result<()> {
        self.write(None, true, move |c| contexts::lost(c, &packs)).await
    }

    /// The files of these packs are on the disk, as far as they hold the same still.
    pub async fn packs_synced(&self, packs: Vec<FreshPack>) -> Result<()> {
        self.write(None, false, move |c| contexts::synced(c, &packs)).await
    }

    /// Notes an execution of which nothing was kept; `stale`: it should have been. `false`: no
    /// such context. Urgent: it is told of a full disk as well.
    pub async fn context_unsaved(
        &self,
        object: &ObjectId,
        context: &str,
        at_ms: i64,
        stale: bool,
    ) -> Result<bool> {
        let (id, context) = (*object, context.to_owned());
        self.write(Some(object), true, move |c| contexts::unsaved(c, &id, &context, at_ms, stale))
            .await
    }

    /// Deletes a context with its checkpoints. `false`: no such context. Urgent.
    pub async fn delete_context(&self, object: &ObjectId, context: &str) -> Result<bool> {
        let (id, context) = (*object, context.to_owned());
        self.write(Some(object), true, move |c| contexts::delete(c, &id, &context)).await
    }

    /// Keeps the present state of a context under a name.
    ///
    /// Errors: `Missing` (no such context), `Exists`, `TooMany` where it has `limit` of them.
    pub async fn add_checkpoint(
        &self,
        object: &ObjectId,
        context: &str,
        name: &str,
        now_ms: i64,
        limit: u32,
    ) -> Result<CheckpointRow> {
        let (id, context, name) = (*object, context.to_owned(), name.to_owned());
        self.write(Some(object), false, move |c| {
            checkpoints::add(c, &id, &context, &name, now_ms, limit)
        })
        .await
    }

    /// Deletes a checkpoint. `false`: there is none of this name. Urgent.
    pub async fn delete_checkpoint(
        &self,
        object: &ObjectId,
        context: &str,
        name: &str,
    ) -> Result<bool> {
        let (id, context, name) = (*object, context.to_owned(), name.to_owned());
        self.write(Some(object), true, move |c| checkpoints::delete(c, &id, &context, &name)).await
    }
}
