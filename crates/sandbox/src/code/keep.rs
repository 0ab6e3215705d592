//! While a backup takes hold of the files of contexts none of them goes.

use crate::world::World;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use types::ObjectId;

/// Who removes reads the gate, who takes hold writes it.
#[derive(Default)]
pub(crate) struct Keeping {
    gate: Arc<RwLock<()>>,
    /// Contexts of which files were to go meanwhile.
    waiting: Mutex<BTreeSet<(ObjectId, String)>>,
}

impl Keeping {
    fn waiting(&self) -> MutexGuard<'_, BTreeSet<(ObjectId, String)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leave to remove files of a context that goes on, while it is held; `None`: they have to stay
    /// for now, and are looked after later. What is to stay is read under it.
    pub(super) fn leave(
        &self,
        object: &ObjectId,
        context: &str,
    ) -> Option<OwnedRwLockReadGuard<()>> {
        let mut waiting = self.waiting();
        let leave = self.gate.clone().try_read_owned().ok();
        if leave.is_none() {
            waiting.insert((*object, context.to_owned()));
        }
        leave
    }

    /// The same for one that is no more; waits. Never while another leave is held.
    pub(super) async fn leave_at_last(&self) -> OwnedRwLockReadGuard<()> {
        self.gate.clone().read_owned().await
    }
}

/// Keeps all files until it is released or dropped. A copy of the store that is made meanwhile
/// names files that are there.
pub(crate) struct Kept {
    world: Arc<World>,
    gate: OwnedRwLockWriteGuard<()>,
}

impl Kept {
    /// Waits for those who remove just now, and for others who take hold.
    pub(crate) async fn new(world: Arc<World>) -> Self {
        let gate = world.code.keeping.gate.clone().write_owned().await;
        Self { world, gate }
    }

    /// Lets files go again. Whoever has the next turn of a context of which some were to go looks
    /// for what no row names.
    pub(crate) fn release(self) {
        let Self { world, gate } = self;
        drop(gate);
        let waiting = std::mem::take(&mut *world.code.keeping.waiting());
        for (object, context) in waiting {
            world.code.make_untidy(&object, &context);
        }
    }
}

impl super::Code {
    /// Whoever has the next turn of a context looks for packs that no row names. Where nothing of
    /// the sandbox's code is in memory that is done anyway when it is next used.
    fn make_untidy(&self, object: &ObjectId, context: &str) {
        let live = self.all().get(object).cloned();
        if let Some(queue) = live.and_then(|live| live.known_queue(context)) {
            queue.make_untidy();
        }
    }
}
