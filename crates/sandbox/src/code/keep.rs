//! While a backup reads the files of contexts none of them goes.

use super::packs;
use crate::world::World;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::ObjectId;

/// Who reads, and whose files were to go meanwhile.
#[derive(Default)]
pub(crate) struct Keeping(Mutex<(usize, BTreeSet<(ObjectId, String)>)>);

impl Keeping {
    fn lock(&self) -> MutexGuard<'_, (usize, BTreeSet<(ObjectId, String)>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether files of this context have to stay for now.
    pub(super) fn keeps(&self, object: &ObjectId, context: &str) -> bool {
        let mut keeping = self.lock();
        let keeps = keeping.0 > 0;
        if keeps {
            keeping.1.insert((*object, context.to_owned()));
        }
        keeps
    }
}

/// Keeps all files until it is released or dropped.
pub(crate) struct Kept(Arc<World>);

impl Kept {
    pub(crate) fn new(world: Arc<World>) -> Self {
        world.code.keeping.lock().0 += 1;
        Self(world)
    }

    /// Lets files go again. Those of contexts that are no more go now; old packs of the others go
    /// when their context is saved the next time, whose turn it is then.
    pub(crate) async fn release(self) {
        let world = self.0.clone();
        drop(self);
        let waiting = {
            let mut keeping = world.code.keeping.lock();
            if keeping.0 > 0 { BTreeSet::new() } else { std::mem::take(&mut keeping.1) }
        };
        for (object, id) in waiting {
            if matches!(world.store.context(&object, &id).await, Ok(None))
                && let Err(error) = packs::remove(&world, &object, &id).await
            {
                tracing::warn!(%object, context = id, %error, "a left directory stays for now");
            }
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.code.keeping.lock().0 -= 1;
    }
}
