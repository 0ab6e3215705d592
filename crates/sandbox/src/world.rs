//! What all sandboxes of a server share.

use crate::code::Code;
use crate::memory::Ledger;
use crate::meters::Meters;
use crate::object::SandboxObject;
use crate::quotas::Used;
use crate::text::{self, Room};
use crate::turns::Turns;
use crate::upkeep::Upkeep;
use containers::{Engine, Instance};
use objects::{AlarmHandle, Clock, Holds, WeakObjects};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use store::Store;
use tokio::sync::Notify;
use types::{ObjectId, Settings};

/// How much buffered output the server holds at most, bytes.
const OUTPUT: usize = 512 << 20;

pub(crate) struct World {
    pub store: Store,
    pub engine: Arc<dyn Engine>,
    pub clock: Clock,
    pub alarms: AlarmHandle,
    /// What a sandbox is set to that names nothing.
    pub defaults: Settings,
    /// Wakes the delivery of stops; `None`: nobody wants them.
    pub outbox: Option<Arc<Notify>>,
    /// Where stops are written.
    pub log: crate::stops::Log,
    pub objects: OnceLock<WeakObjects<SandboxObject>>,
    /// Runs code.
    pub code: Code,
    /// What is counted.
    pub meters: Meters,
    /// Room for buffered output.
    pub room: Room,
    /// Workspaces in use.
    pub workspaces: crate::files::Workspaces,
    /// What the operator allows.
    pub upkeep: Upkeep,
    /// Who waits for room.
    pub turns: Turns,
    /// Workspaces that are to be counted.
    pub used: Used,
    /// Starts under way, and when instances were active last.
    pub ledger: Ledger,
    /// Backups at once.
    pub backup: Arc<tokio::sync::Semaphore>,
    instances: Mutex<HashMap<ObjectId, Arc<dyn Instance>>>,
    holds: Mutex<HashMap<ObjectId, Holds>>,
}

/// What a world is made of, but for its alarms: see there.
pub(crate) struct Parts {
    pub store: Store,
    pub engine: Arc<dyn Engine>,
    pub clock: Clock,
    pub defaults: Settings,
    pub outbox: Option<Arc<Notify>>,
    pub code: Code,
    pub upkeep: Upkeep,
}

impl World {
    pub fn new(parts: Parts, alarms: AlarmHandle) -> Self {
        let Parts { store, engine, clock, defaults, outbox, code, upkeep } = parts;
        Self {
            store,
            engine,
            clock,
            alarms,
            defaults,
            outbox,
            log: crate::stops::Log::start(),
            objects: OnceLock::new(),
            code,
            meters: Meters::new(),
            room: text::room(OUTPUT),
            workspaces: crate::files::Workspaces::default(),
            upkeep,
            turns: Turns::default(),
            used: Used::default(),
            ledger: Ledger::default(),
            backup: crate::backup::turns(),
            instances: Mutex::default(),
            holds: Mutex::default(),
        }
    }

    /// The instances that are taken to live. They stand here and not in the objects, so that an
    /// object that panics finds its instance again.
    pub fn instances(&self) -> MutexGuard<'_, HashMap<ObjectId, Arc<dyn Instance>>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The holds of an object with an instance. They stand here for the same reason.
    pub fn holds(&self) -> MutexGuard<'_, HashMap<ObjectId, Holds>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to an object.
    pub fn send(&self, id: ObjectId, message: crate::object::Message) {
        if let Some(objects) = self.objects.get() {
            objects.send(id, message);
        }
    }
}
