//! Quotas, as callers meet them: what they have and may have, waiting for room, workspaces.

use crate::busy::Busy;
use crate::errors;
use crate::object::{Acquired, Message};
use crate::service::Sandboxes;
use crate::turns::{Place, passes};
use crate::world::World;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Instrument as _;
use types::{
    Error, FileOperation, ObjectId, Owner, QuotaExceeded, QuotaKind, QuotaReport, QuotaScope,
    QuotaTable, Result, SandboxId, SandboxName,
};
use workspace::{FilePath, Workspace};

/// Workspaces that were used are counted this often.
const COUNT: Duration = Duration::from_secs(2);
/// What others have in their workspaces is believed for so long.
const BELIEVED: Duration = Duration::from_secs(1);
/// Workspaces for which it is remembered. When there are more all are forgotten.
const REMEMBERED: usize = 4096;
/// Most idle instances that end for the sake of one start.
const ENDED: u32 = 64;

impl Sandboxes {
    /// The limits that are in force.
    pub fn quota_table(&self) -> Arc<QuotaTable> {
        self.world.store.quotas()
    }

    /// How long a start waits for room where its caller names no time.
    pub fn usual_wait(&self) -> Duration {
        self.world.upkeep.wait
    }

    /// What an owner may have and has.
    pub async fn quotas(&self, owner: &Owner) -> Result<QuotaReport> {
        let limits = *self.quota_table().of(owner);
        let now = self.world.clock.now_ms();
        let current = self.world.store.usage(owner, now).await.map_err(errors::of_store)?;
        Ok(QuotaReport { owner: owner.clone(), limits, current })
    }

    /// A quota refused something of `owner`, of whatever kind. Called once for each refusal.
    pub fn quota_refused(&self, owner: &Owner, sandbox: Option<&SandboxId>, error: &Error) {
        self.world.store.note_quota(owner, sandbox, error);
    }

    /// An instance for an activity, waiting at most so long for room where a limit is reached.
    /// Whoever is dropped meanwhile leaves the line.
    pub(crate) async fn acquire(&self, name: &SandboxName, wait: Duration) -> Result<Acquired> {
        let until = Instant::now() + wait;
        let mut place: Option<Place> = None;
        let mut freed = 0;
        loop {
            let turn = place.is_some();
            let span = tracing::info_span!(target: "trace", "instance");
            let (part, name_) = (span.clone(), name.clone());
            let acquire = |reply| Message::Acquire { name: name_, turn, span: part, reply };
            let error = match self.ask(name, acquire).instrument(span).await {
                Ok(acquired) => return Ok(acquired),
                Err(error) => error,
            };
            if self.make_room(&error).await {
                freed += 1;
                if freed <= ENDED {
                    continue;
                }
            }
            if !passes(&error) || wait.is_zero() {
                return Err(error);
            }
            let own = match place.take() {
                Some(place) => {
                    place.refused(&error);
                    place
                }
                None => match self.world.turns.join(&name.owner, &error) {
                    Some(place) => place,
                    None => return Err(error),
                },
            };
            if !own.called(until).await {
                return Err(error);
            }
            place = Some(own);
        }
    }

    /// Refuses to write to a workspace of an owner whose workspaces are at their limit. Errors:
    /// `QUOTA_EXCEEDED`.
    pub(crate) async fn room_in_workspaces(&self, owner: &Owner) -> Result<()> {
        let all = self.world.workspace_bytes(owner).await?;
        match all.into_iter().find(|quota| quota.current >= quota.limit) {
            Some(quota) => Err(quota.error()),
            None => Ok(()),
        }
    }
}

/// Bytes in the other workspaces: of the same owner, and of all.
type Elsewhere = (u64, u64);

/// The workspaces that were used since they were counted.
#[derive(Default)]
pub(crate) struct Used {
    objects: Mutex<HashSet<ObjectId>>,
    elsewhere: Mutex<HashMap<ObjectId, (Instant, Elsewhere)>>,
    /// There are some.
    pub some: Arc<Notify>,
}

impl Used {
    fn believed(&self, object: &ObjectId) -> Option<Elsewhere> {
        let known = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(object).filter(|(at, _)| at.elapsed() < BELIEVED).map(|(_, bytes)| *bytes)
    }

    fn believe(&self, object: &ObjectId, bytes: Elsewhere) {
        let mut known = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(*object, (Instant::now(), bytes));
    }

    fn take(&self) -> HashSet<ObjectId> {
        std::mem::take(&mut *self.objects.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl World {
    /// Holds a workspace, for what an activity is about to write, to what the others of its owner,
    /// and all others, leave of their quotas. Its own files are counted when they are written; what
    /// others write meanwhile is not, so each may fill once what was left.
    pub(crate) async fn bound(&self, workspace: &Workspace, busy: &Busy) -> Result<()> {
        let (object, owner, table) = (busy.object(), busy.owner(), self.store.quotas());
        let (own, all) = (table.of(owner).workspace_bytes, table.machine.workspace_bytes);
        if own.is_none() && all.is_none() {
            return Ok(());
        }
        let (of_owner, of_all) = match self.used.believed(object) {
            Some(bytes) => bytes,
            None => {
                let bytes = self.store.bytes_elsewhere(owner, object).await;
                let bytes = bytes.map_err(errors::of_store)?;
                self.used.believe(object, bytes);
                bytes
            }
        };
        let left =
            |limit: Option<u64>, others| limit.map_or(u64::MAX, |l| l.saturating_sub(others));
        workspace.bound(left(own, of_owner).min(left(all, of_all)));
        Ok(())
    }

    /// The limits of bytes in workspaces that an owner is under, and what is there.
    async fn workspace_bytes(&self, owner: &Owner) -> Result<Vec<QuotaExceeded>> {
        let table = self.store.quotas();
        let limits = [
            (QuotaScope::Owner, table.of(owner).workspace_bytes),
            (QuotaScope::Machine, table.machine.workspace_bytes),
        ];
        let mut all = Vec::new();
        for (scope, limit) in limits {
            let Some(limit) = limit else { continue };
            let now = match scope {
                QuotaScope::Owner => self.store.usage(owner, self.clock.now_ms()).await,
                QuotaScope::Machine => self.store.usage_of_all().await,
            };
            let current = now.map_err(errors::of_store)?.workspace_bytes;
            let (limit, current) = (limit as f64, current as f64);
            let what = QuotaKind::WorkspaceBytes;
            all.push(QuotaExceeded { what, scope, limit, current, needed: 0.0 });
        }
        Ok(all)
    }

    /// What a caller is told whom a quota of bytes kept from writing: of the limit that leaves least.
    pub(crate) async fn bytes_refused(&self, owner: &Owner) -> Option<Error> {
        let all = self.workspace_bytes(owner).await.ok()?;
        let left = |quota: &QuotaExceeded| quota.limit - quota.current;
        let least = all.into_iter().min_by(|a, b| left(a).total_cmp(&left(b)))?;
        Some(least.error())
    }

    /// An error of a workspace as its caller sees it.
    pub(crate) async fn refused(
        &self,
        owner: &Owner,
        error: workspace::Error,
        operation: FileOperation,
        path: &FilePath,
    ) -> Error {
        let told = error.public(operation, path);
        if !error.is_quota() {
            return told;
        }
        let Some(mut quota) = self.bytes_refused(owner).await else { return told };
        for key in ["path", "operation", "errno", "entry"] {
            if let Some(value) = told.context.get(key) {
                quota = quota.with(key, value.clone());
            }
        }
        quota
    }

    /// Something was done in a sandbox of this owner that may have changed its workspace.
    pub(crate) fn used(&self, object: &ObjectId, owner: &Owner) {
        let table = self.store.quotas();
        if table.of(owner).workspace_bytes.is_some() || table.machine.workspace_bytes.is_some() {
            self.used.objects.lock().unwrap_or_else(PoisonError::into_inner).insert(*object);
            self.used.some.notify_one();
        }
    }
}

/// Counts what was used, one after the other, for as long as the server lives.
pub(crate) async fn count(world: Weak<World>, some: Arc<Notify>) {
    loop {
        // The time-out finds that the server has ended.
        let _ = tokio::time::timeout(COUNT * 30, some.notified()).await;
        let Some(world) = world.upgrade() else { return };
        for object in world.used.take() {
            let counted = crate::info::workspace(world.engine.as_ref(), &object).await;
            let Ok(counted) = counted else { continue };
            match world.store.measured(&object, counted.bytes).await {
                Ok(()) => {}
                Err(store::Error::Closed) => return,
                Err(error) => tracing::warn!(%object, %error, "a workspace's size is not noted"),
            }
        }
        drop(world);
        tokio::time::sleep(COUNT).await;
    }
}
