//! The live copies and their mailboxes.

use crate::alarms::{self, AlarmHandle};
use crate::clock::Clock;
use async_trait::async_trait;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use store::Store;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use types::ObjectId;

/// An alarm handler could not do its work; it is called again.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AlarmFailed(pub String);

/// What an object is.
#[async_trait]
pub trait Object: Send + Sized + 'static {
    /// What is sent to it.
    type Message: Send + 'static;
    /// What all objects of the kind share.
    type World: Send + Sync + 'static;

    /// Brings a copy to life. It answers failures to each message by itself.
    async fn activate(id: ObjectId, world: Arc<Self::World>) -> Self;

    /// Handles one message. Nothing else of the object happens meanwhile.
    async fn handle(&mut self, message: Self::Message);

    /// Handles the alarm: sets the next one or clears it. A failure is tried again after 2 s,
    /// doubling, six times, then at [`Object::recheck`].
    async fn alarm(&mut self) -> Result<(), AlarmFailed>;

    /// How long after the last failure the alarm is tried again.
    fn recheck(&self) -> Duration;

    /// Whether the copy may leave memory: nothing is under way that it alone knows.
    fn evictable(&self) -> bool;
}

/// How objects live.
#[derive(Debug, Clone)]
pub struct Options {
    /// A copy without work leaves memory after this long.
    pub evict_after: Duration,
    /// How many alarms are handled at once.
    pub alarms_at_once: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { evict_after: Duration::from_secs(10), alarms_at_once: 64 }
    }
}

enum Envelope<M> {
    Message(M),
    Alarm(tokio::sync::OwnedSemaphorePermit),
}

type Mailbox<M> = mpsc::UnboundedSender<Envelope<M>>;

struct Shared<O: Object> {
    live: Mutex<HashMap<ObjectId, Mailbox<O::Message>>>,
    world: Arc<O::World>,
    alarms: AlarmHandle,
    /// Closed once alarms may fire.
    begun: Semaphore,
    options: Options,
}

impl<O: Object> Shared<O> {
    fn live(&self) -> MutexGuard<'_, HashMap<ObjectId, Mailbox<O::Message>>> {
        // The map is never left half changed, so a panic elsewhere does not spoil it.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All objects of a kind. Cheap to clone.
pub struct Objects<O: Object>(Arc<Shared<O>>);

impl<O: Object> Clone for Objects<O> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// [`Objects`] for those whom the objects own.
pub struct WeakObjects<O: Object>(Weak<Shared<O>>);

impl<O: Object> Clone for WeakObjects<O> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<O: Object> WeakObjects<O> {
    /// Sends a message to an object; nothing happens where the server has ended.
    pub fn send(&self, id: ObjectId, message: O::Message) {
        if let Some(shared) = self.0.upgrade() {
            Objects(shared).send(id, message);
        }
    }
}

impl<O: Object> Objects<O> {
    /// Starts the alarm clock with all alarms of the store; none fires before
    /// [`Objects::begin`], then overdue ones fire at once. `world` is made with the handle to
    /// set alarms.
    pub async fn start(
        store: &Store,
        clock: &Clock,
        options: Options,
        world: impl FnOnce(AlarmHandle) -> Arc<O::World>,
    ) -> Result<(Self, Arc<O::World>), store::Error> {
        let (objects, world) = Self::at_rest(options, world);
        let mut after = None;
        loop {
            let page = store.alarms(after, 1000).await?;
            let (now_ms, now) = (clock.now_ms(), clock.instant());
            for (id, at) in &page {
                let wait = Duration::from_millis(at.saturating_sub(now_ms).max(0) as u64);
                objects.0.alarms.set(*id, now + wait);
            }
            after = page.last().map(|(id, at)| (*at, *id));
            if after.is_none() {
                return Ok((objects, world));
            }
        }
    }

    /// The same without the alarms of a store: nothing happens by itself.
    pub fn at_rest(
        options: Options,
        world: impl FnOnce(AlarmHandle) -> Arc<O::World>,
    ) -> (Self, Arc<O::World>) {
        let (due, mut fired) = mpsc::unbounded_channel();
        let alarms = alarms::start(move |id| {
            let _ = due.send(id);
        });
        let shared = Arc::new(Shared::<O> {
            live: Mutex::default(),
            world: world(alarms.clone()),
            alarms,
            begun: Semaphore::new(0),
            options,
        });
        let weak = Arc::downgrade(&shared);
        let permits = Arc::new(Semaphore::new(shared.options.alarms_at_once));
        tokio::spawn(async move {
            if let Some(shared) = weak.upgrade() {
                let _ = shared.begun.acquire().await;
            }
            while let Some(id) = fired.recv().await {
                let Ok(permit) = permits.clone().acquire_owned().await else { return };
                let Some(shared) = weak.upgrade() else { return };
                Objects(shared).deliver(id, Envelope::Alarm(permit));
            }
        });
        let world = shared.world.clone();
        (Self(shared), world)
    }

    /// Lets alarms fire.
    pub fn begin(&self) {
        self.0.alarms.began();
        self.0.begun.close();
    }

    /// Sends a message to an object, bringing it to life where needed.
    pub fn send(&self, id: ObjectId, message: O::Message) {
        self.deliver(id, Envelope::Message(message));
    }

    /// A handle that does not keep the objects alive.
    pub fn downgrade(&self) -> WeakObjects<O> {
        WeakObjects(Arc::downgrade(&self.0))
    }

    /// How many copies are in memory.
    pub fn live_count(&self) -> usize {
        self.0.live().len()
    }

    fn deliver(&self, id: ObjectId, envelope: Envelope<O::Message>) {
        let mut live = self.0.live();
        let envelope = match live.get(&id) {
            None => envelope,
            Some(mailbox) => match mailbox.send(envelope) {
                Ok(()) => return,
                // It died of a panic before it could take itself off the map.
                Err(mpsc::error::SendError(envelope)) => envelope,
            },
        };
        let (mailbox, inbox) = mpsc::unbounded_channel();
        // The receiver exists, so this cannot fail.
        let _ = mailbox.send(envelope);
        live.insert(id, mailbox);
        let life = run::<O>(Arc::downgrade(&self.0), self.0.world.clone(), id, inbox);
        let alarms = self.0.alarms.clone();
        tokio::spawn(async move {
            if let Err(ended) = tokio::spawn(life).await
                && ended.is_panic()
            {
                // It may have been at its alarm; one too many is harmless.
                tracing::error!(object = %id, "an object panicked; the next message revives it");
                alarms.set(id, Instant::now() + FIRST_RETRY);
            }
        });
    }
}

async fn run<O: Object>(
    shared: Weak<Shared<O>>,
    world: Arc<O::World>,
    id: ObjectId,
    mut inbox: mpsc::UnboundedReceiver<Envelope<O::Message>>,
) {
    let mut object = O::activate(id, world).await;
    let mut failures = 0;
    loop {
        let Some(owner) = shared.upgrade() else { return };
        let evict_after = owner.options.evict_after;
        drop(owner);
        match tokio::time::timeout(evict_after, inbox.recv()).await {
            Ok(None) => return,
            Ok(Some(Envelope::Message(message))) => object.handle(message).await,
            Ok(Some(Envelope::Alarm(permit))) => {
                let done = object.alarm().await;
                drop(permit);
                let Some(owner) = shared.upgrade() else { return };
                retry::<O>(&owner, id, done, &mut failures, object.recheck());
            }
            Err(_) if failures == 0 && object.evictable() => {
                let Some(owner) = shared.upgrade() else { return };
                let mut live = owner.live();
                // Sends happen under the same lock: an empty inbox stays empty here.
                if inbox.is_empty() {
                    live.remove(&id);
                    return;
                }
            }
            Err(_) => {}
        }
    }
}

/// Two seconds, doubling.
const FIRST_RETRY: Duration = Duration::from_secs(2);
const RETRIES: u32 = 6;

fn retry<O: Object>(
    shared: &Shared<O>,
    id: ObjectId,
    done: Result<(), AlarmFailed>,
    failures: &mut u32,
    recheck: Duration,
) {
    let Err(error) = done else {
        *failures = 0;
        return;
    };
    *failures += 1;
    let wait = if *failures <= RETRIES {
        FIRST_RETRY * 2u32.pow(*failures - 1)
    } else {
        tracing::error!(object = %id, %error, "an alarm failed too often; trying again at the check interval");
        *failures = 0;
        recheck
    };
    tracing::warn!(object = %id, %error, ?wait, "an alarm failed");
    shared.alarms.set(id, Instant::now() + wait);
}
