//! What all sandboxes of a server share.

use crate::object::SandboxObject;
use containers::{Engine, Instance};
use objects::{AlarmHandle, Clock, WeakObjects};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use store::Store;
use tokio::sync::Notify;
use types::{ObjectId, Settings};

pub(crate) struct World {
    pub store: Store,
    pub engine: Arc<dyn Engine>,
    pub clock: Clock,
    pub alarms: AlarmHandle,
    /// What a sandbox is set to that names nothing.
    pub defaults: Settings,
    /// Wakes the delivery of stops; `None`: nobody wants them.
    pub outbox: Option<Arc<Notify>>,
    pub objects: OnceLock<WeakObjects<SandboxObject>>,
    instances: Mutex<HashMap<ObjectId, Arc<dyn Instance>>>,
}

impl World {
    pub fn new(
        store: Store,
        engine: Arc<dyn Engine>,
        clock: Clock,
        alarms: AlarmHandle,
        defaults: Settings,
        outbox: Option<Arc<Notify>>,
    ) -> Self {
        Self {
            store,
            engine,
            clock,
            alarms,
            defaults,
            outbox,
            objects: OnceLock::new(),
            instances: Mutex::default(),
        }
    }

    /// The instances that are taken to live. They stand here and not in the objects, so that an
    /// object that panics finds its instance again.
    pub fn instances(&self) -> MutexGuard<'_, HashMap<ObjectId, Arc<dyn Instance>>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to an object.
    pub fn send(&self, id: ObjectId, message: crate::object::Message) {
        if let Some(objects) = self.objects.get() {
            objects.send(id, message);
        }
    }
}
