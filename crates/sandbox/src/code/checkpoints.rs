//! Checkpoints of contexts: states under a name, to go back to. They share the context's packs.

use super::{CHECKPOINTS, answer, no_context, packs};
use crate::errors;
use store::ContextState;
use types::{
    CheckpointInfo, CheckpointRequest, ContextInfo, Error, ErrorCode, Result, SandboxName,
};

impl crate::Sandboxes {
    /// Keeps the present state of a context under a name. Errors: `VALIDATION_FAILED` of `name`,
    /// `CHECKPOINT_EXISTS`, as [`crate::Sandboxes::context`].
    pub async fn create_checkpoint(
        &self,
        name: &SandboxName,
        id: &str,
        request: CheckpointRequest,
    ) -> Result<CheckpointInfo> {
        check_name(&request.name)?;
        let turn = self.turn(name, id).await?;
        let (store, now) = (&self.world.store, self.world.clock.now_ms());
        let added =
            store.add_checkpoint(turn.busy.object(), id, &request.name, now, CHECKPOINTS).await;
        match added {
            Ok(row) => answer::checkpoint(row),
            Err(store::Error::Missing) => Err(no_context(id)),
            Err(store::Error::Exists) => {
                let name = request.name;
                let message = format!("the context has a checkpoint {name:?} already");
                Err(Error::new(ErrorCode::CheckpointExists, message).with("name", name))
            }
            Err(store::Error::TooMany { limit }) => {
                let message = format!("a context may have {limit} checkpoints: delete one first");
                Err(Error::invalid("name", message).with("limit", limit))
            }
            Err(other) => Err(errors::of_store(other)),
        }
    }

    /// The checkpoints of a context, oldest first. No activity. Errors: as
    /// [`crate::Sandboxes::context`].
    pub async fn checkpoints(&self, name: &SandboxName, id: &str) -> Result<Vec<CheckpointInfo>> {
        let row = self.row(name).await?;
        let rows = self.world.store.checkpoints(&row.object, id).await.map_err(errors::of_store)?;
        let rows = rows.ok_or_else(|| no_context(id))?;
        rows.into_iter().map(answer::checkpoint).collect()
    }

    /// Makes a context again what it was at a checkpoint: memory, working directory, number of
    /// executions. Errors: `CHECKPOINT_NOT_FOUND`, `SNAPSHOT_CORRUPT` (the context stays as it is), as
    /// [`crate::Sandboxes::context`].
    pub async fn roll_back(
        &self,
        name: &SandboxName,
        id: &str,
        checkpoint: &str,
    ) -> Result<ContextInfo> {
        let turn = self.turn(name, id).await?;
        let (store, object) = (&self.world.store, *turn.busy.object());
        let rows = store.checkpoints(&object, id).await.map_err(errors::of_store)?;
        let found = rows.unwrap_or_default().into_iter().find(|row| row.name == checkpoint);
        let mut found = found.ok_or_else(|| no_checkpoint(checkpoint))?;
        if let Some(snapshot) = &mut found.snapshot {
            // A number that this context never had: what is warm in a worker, of a state with
            // the checkpoint's number, is not taken for it.
            let mut manifest = packs::manifest(snapshot)?;
            // Else what is there would be given up for nothing.
            packs::check(&self.world, &object, id, &manifest).await?;
            if let Some(present) = turn.row.snapshot.as_ref().map(packs::manifest).transpose()? {
                manifest.seq = manifest.seq.max(present.seq);
                // Its monotonic clock does not go back with it.
                manifest.clock_ns = manifest.clock_ns.max(present.clock_ns);
            }
            manifest.seq += 1;
            snapshot.manifest = serde_json::to_string(&manifest)
                .map_err(|e| errors::internal("writing a snapshot", e))?;
        }
        let state = ContextState {
            version: found.version,
            cwd: found.cwd,
            executions: found.executions,
            snapshot: found.snapshot,
            last_used: self.world.clock.now_ms(),
        };
        if !store.save_context(&object, id, &state, None).await.map_err(errors::of_store)? {
            return Err(if turn.busy.is_aborted() { errors::destroyed() } else { no_context(id) });
        }
        turn.live.forget(id).await;
        packs::sweep(&self.world, &object, id).await;
        answer::context(self.find(&object, id).await?)
    }

    /// Deletes a checkpoint. Errors: `CHECKPOINT_NOT_FOUND`, as [`crate::Sandboxes::context`].
    pub async fn delete_checkpoint(
        &self,
        name: &SandboxName,
        id: &str,
        checkpoint: &str,
    ) -> Result<()> {
        let busy = self.busy_if_there(name).await?;
        let (live, _in_use) = self.world.code.live(&self.world, &busy).await?;
        let (store, object) = (&self.world.store, busy.object());
        self.find(object, id).await?;
        if !store.delete_checkpoint(object, id, checkpoint).await.map_err(errors::of_store)? {
            return Err(no_checkpoint(checkpoint));
        }
        let queue = live.queue(id);
        queue.make_untidy();
        // Else whoever has the turn sees it at its end.
        if let Some(_turn) = queue.turn_now()
            && queue.was_untidy()
        {
            packs::sweep(&self.world, object, id).await;
        }
        Ok(())
    }
}

fn no_checkpoint(name: &str) -> Error {
    let shown: String = name.chars().take(128).collect();
    let message = format!("the context has no checkpoint {shown:?}");
    Error::new(ErrorCode::CheckpointNotFound, message).with("name", shown)
}

/// The alphabet of sandbox ids; nothing is reserved.
fn check_name(name: &str) -> Result<()> {
    match name.parse::<types::Owner>() {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::invalid(
            "name",
            "name must have 1 to 63 characters from A-Z a-z 0-9 . _ - with no hyphen at either \
             end, and not be . or ..",
        )),
    }
}
