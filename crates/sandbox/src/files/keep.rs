//! The workspaces that are in use. One is kept for a sandbox, as it has the count of what lies in
//! it; it is the same as long as the directory is the same.

use crate::errors;
use crate::world::World;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use types::{ObjectId, Owner, Result};
use workspace::{Limits, Workspace};

/// Workspaces that are kept; each has two descriptors.
const KEPT: usize = 128;
/// Archives that are written or unpacked at once: each has a thread.
const ARCHIVES: usize = 64;
/// Watches at once: each has one of the kernel's instances, of which a user has 128 as a rule.
const WATCHES: usize = 64;
/// Long lists at once: each may have 64 MiB of text.
const LISTS: usize = 8;

/// Turns for what there may be so much of at once; an owner has half of them at most.
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    share: usize,
    owners: Mutex<HashMap<Owner, Weak<Semaphore>>>,
}

/// One of them, until it is dropped: the owner's, and everybody's.
pub struct Turn {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Turns {
    fn new(count: usize) -> Self {
        let all = Arc::new(Semaphore::new(count));
        Self { all, share: count / 2, owners: Mutex::default() }
    }

    /// Waits for one. Cancel-safe. They are never closed.
    pub async fn take(&self, owner: &Owner) -> Option<Turn> {
        let own = self.of(owner).acquire_owned().await.ok()?;
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(Turn { _own: own, _all: all })
    }

    fn of(&self, owner: &Owner) -> Arc<Semaphore> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = owners.get(owner).and_then(Weak::upgrade) {
            return own;
        }
        owners.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.share));
        owners.insert(owner.clone(), Arc::downgrade(&own));
        own
    }
}

struct Kept {
    id: (u64, u64),
    workspace: Workspace,
    used: Instant,
}

/// The workspaces that are in use, and what all of them share.
pub(crate) struct Workspaces {
    kept: Mutex<HashMap<ObjectId, Kept>>,
    pub archives: Turns,
    pub watches: Turns,
    pub lists: Turns,
}

impl Default for Workspaces {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            archives: Turns::new(ARCHIVES),
            watches: Turns::new(WATCHES),
            lists: Turns::new(LISTS),
        }
    }
}

impl Workspaces {
    fn of(&self, object: &ObjectId, dir: OwnedFd, own: bool) -> workspace::Result<Workspace> {
        let stat = rustix::fs::fstat(dir.as_fd())?;
        let id = (stat.st_dev, stat.st_ino);
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // A directory that is open is not another one under the same number.
        if let Some(kept) = all.get_mut(object).filter(|kept| kept.id == id) {
            kept.used = Instant::now();
            return Ok(kept.workspace.clone());
        }
        let mut workspace = Workspace::open(dir, Limits::default())?;
        if own {
            workspace = workspace.owned_by(stat.st_uid, stat.st_gid);
        }
        let kept = Kept { id, workspace: workspace.clone(), used: Instant::now() };
        all.insert(*object, kept);
        if all.len() > KEPT
            && let Some(oldest) = all.iter().min_by_key(|(_, kept)| kept.used).map(|(id, _)| *id)
        {
            all.remove(&oldest);
        }
        Ok(workspace)
    }

    /// A sandbox is gone.
    pub fn forget(&self, object: &ObjectId) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(object);
    }
}

impl World {
    /// The workspace of a sandbox, made where it is not there. Only while the sandbox is held
    /// busy, so that nothing is made beside its end.
    pub(crate) async fn workspace(&self, object: &ObjectId) -> Result<Workspace> {
        let dir = self.engine.make_workspace(object).await;
        let dir = dir.map_err(|e| errors::of_engine_work("opening the workspace", &e))?;
        // Where the ids of an instance are those on the disk, its root owns the directory.
        let own = matches!(self.engine.borrow_ids(), Err(containers::Error::Unsupported(_)));
        let workspace = self.workspaces.of(object, dir, own);
        workspace.map_err(|e| errors::internal("opening the workspace", e))
    }
}
