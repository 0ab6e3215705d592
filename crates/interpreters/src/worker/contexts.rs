//! Contexts that are warm: each runs one execution at a time, in the order of the requests, and
//! those used least lately are dropped when all of them take too much.

use crate::engines::EngineBuild;
use crate::protocol::Failure;
use crate::wasi::{Places, Shared};
use crate::zygote::{ENGINES, Mapped};
use crate::{Instance, Runtime};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Contexts of one worker.
pub(super) struct Contexts {
    pub clock: Arc<Runtime>,
    most: u64,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    used: AtomicU64,
    engines: bool,
    /// What all of them may write to the workspace together.
    room: Arc<Shared>,
}

/// One context.
#[derive(Default)]
pub(super) struct Slot {
    /// `None`: cold. The lock is fair.
    pub instance: tokio::sync::Mutex<Option<Instance>>,
    bytes: AtomicU64,
    last: AtomicU64,
}

impl Contexts {
    pub fn new(clock: Arc<Runtime>, most: u64, mapped: &Mapped) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            clock,
            most,
            slots: Mutex::default(),
            used: AtomicU64::new(0),
            engines: mapped.cache().is_some(),
            room: Arc::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The context of this key, made where it is not there.
    pub fn slot(&self, key: &str) -> Arc<Slot> {
        let slot = self.lock().entry(key.to_owned()).or_default().clone();
        slot.last.store(self.used.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        slot
    }

    /// Drops what is warm of a context; one that runs is dropped when it ends.
    pub fn forget(&self, key: &str) {
        self.lock().remove(key);
    }

    /// The directories that guests of a build see.
    pub fn places(&self, build: &EngineBuild) -> Result<Places, Failure> {
        let open = |path: &Path| {
            let other = |e| Failure::Other { text: format!("{}: {e}", path.display()) };
            Places::open(path).map_err(other)
        };
        let mut engines = Vec::new();
        if self.engines {
            for dir in &build.dirs {
                let path = Path::new("/").join(ENGINES).join(&dir.host);
                let open = Places::open(&path).map_err(|_| Failure::UnknownBuild)?;
                engines.push((dir.guest.clone(), open));
            }
        }
        let (workspace, tmp) = (open(Path::new("/workspace"))?, open(Path::new("/tmp"))?);
        Ok(Places::new(workspace, tmp, engines).beside(&self.room))
    }

    /// Notes what a context takes now, and drops those used least lately while all take too
    /// much. Gives what is left, bytes.
    pub fn settle(&self, slot: &Slot, bytes: u64) -> u64 {
        slot.bytes.store(bytes, Ordering::Relaxed);
        let mut slots = self.lock();
        let sum = |slots: &HashMap<String, Arc<Slot>>| {
            slots.values().map(|slot| slot.bytes.load(Ordering::Relaxed)).sum::<u64>()
        };
        let mut total = sum(&slots);
        while total > self.most {
            let idle = slots.iter().filter(|(_, other)| {
                !std::ptr::eq(Arc::as_ptr(other), slot) && Arc::strong_count(other) == 1
            });
            let oldest = idle.min_by_key(|(_, slot)| slot.last.load(Ordering::Relaxed));
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { break };
            slots.remove(&key);
            total = sum(&slots);
        }
        total
    }
}
