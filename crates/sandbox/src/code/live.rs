//! What is in memory of one sandbox's code: its worker, and the turns of its contexts.
//!
//! Nothing here is true by itself: a worker may die and this may be dropped at any time, and the
//! next execution makes it anew.

use super::{Code, of_interpreters, packs};
use crate::busy::Busy;
use crate::errors;
use crate::world::World;
use containers::IdRange;
use interpreters::{Worker, WorkerSpec};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OnceCell, OwnedMutexGuard, watch};
use tokio::time::Instant;
use types::{Error, ErrorCode, ObjectId, Result};

/// Executions that wait for one context; more are refused.
const WAITING: usize = 256;

/// The code of one life of a sandbox.
pub(super) struct Live {
    object: ObjectId,
    /// When that life began.
    life: i64,
    /// Left-overs of crashes are removed.
    tidy: OnceCell<()>,
    worker: AsyncMutex<Option<Worker>>,
    queues: Mutex<HashMap<String, Weak<Queue>>>,
    /// Held while a default context is looked for and made.
    pub making: AsyncMutex<()>,
    activity: Mutex<Activity>,
}

struct Activity {
    under_way: usize,
    last: Instant,
    /// After this long without code the worker goes; zero: never.
    limit: Duration,
}

/// The turns of one context: one execution at a time, in the order of their coming.
pub(super) struct Queue {
    turn: Arc<AsyncMutex<()>>,
    waiting: AtomicUsize,
    deleted: watch::Sender<bool>,
}

/// Keeps the worker from being taken for idle.
pub(super) struct InUse(Arc<Live>);

impl Drop for InUse {
    fn drop(&mut self) {
        let mut activity = self.0.activity();
        activity.under_way -= 1;
        activity.last = Instant::now();
    }
}

impl Queue {
    /// Waits for the context's turn. Cancel-safe. Errors: `TOO_MANY_REQUESTS`.
    pub async fn turn(&self) -> Result<OwnedMutexGuard<()>> {
        struct Place<'a>(&'a AtomicUsize);
        impl Drop for Place<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::AcqRel);
            }
        }
        let before = self.waiting.fetch_add(1, Ordering::AcqRel);
        let _place = Place(&self.waiting);
        if before >= WAITING {
            let message = format!("{WAITING} executions wait for this context already");
            return Err(Error::new(ErrorCode::TooManyRequests, message));
        }
        Ok(self.turn.clone().lock_owned().await)
    }

    /// The turn, where nobody has it.
    pub fn turn_now(&self) -> Option<OwnedMutexGuard<()>> {
        self.turn.clone().try_lock_owned().ok()
    }

    /// Tells those who run or wait that the context is deleted.
    pub fn delete(&self) {
        self.deleted.send_replace(true);
    }

    /// Waits until the context is deleted.
    pub async fn deleted(&self) {
        // The sender lives as long as this.
        let _ = self.deleted.subscribe().wait_for(|deleted| *deleted).await;
    }
}

impl Live {
    fn new(object: ObjectId, life: i64) -> Self {
        let (last, limit) = (Instant::now(), Duration::ZERO);
        Self {
            object,
            life,
            tidy: OnceCell::new(),
            worker: AsyncMutex::default(),
            queues: Mutex::default(),
            making: AsyncMutex::default(),
            activity: Mutex::new(Activity { under_way: 0, last, limit }),
        }
    }

    fn activity(&self) -> std::sync::MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turns of a context.
    pub fn queue(&self, context: &str) -> Arc<Queue> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(context).and_then(Weak::upgrade) {
            return queue;
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::new(Queue {
            turn: Arc::default(),
            waiting: AtomicUsize::new(0),
            deleted: watch::Sender::new(false),
        });
        queues.insert(context.to_owned(), Arc::downgrade(&queue));
        queue
    }

    /// The sandbox's worker, made where there is none. Its process comes and goes by itself.
    pub async fn worker(self: &Arc<Self>, world: &Arc<World>) -> Result<Worker> {
        let mut slot = self.worker.lock().await;
        if let Some(worker) = &*slot {
            return Ok(worker.clone());
        }
        let dir = world.engine.make_workspace(&self.object).await;
        let dir = dir.map_err(|e| errors::of_engine_work("making the workspace", &e))?;
        let worker = start_worker(world, dir).await?;
        tokio::spawn(end_when_idle(Arc::downgrade(self), Arc::downgrade(world)));
        Ok(slot.insert(worker).clone())
    }

    /// Lets a worker's memory of a context go, where there is a worker.
    pub async fn forget(&self, context: &str) {
        let worker = self.worker.lock().await.clone();
        if let Some(worker) = worker {
            worker.forget(context).await;
        }
    }
}

/// Starts a worker on a directory, with ids of its own where the mode has such.
pub(super) async fn start_worker(world: &World, dir: OwnedFd) -> Result<Worker> {
    let ids = world.engine.borrow_ids().map_err(|e| errors::of_engine(&e))?;
    let spec = WorkerSpec {
        workspace: dir,
        ids: ids.as_ref().map(IdRange::base),
        lease: ids.map(|ids| Box::new(ids) as _),
    };
    let interpreters = world.code.interpreters()?;
    interpreters.worker(spec).await.map_err(|e| of_interpreters(e, None))
}

/// Ends the worker once no code ran for the limit, and forgets the sandbox's code with it.
async fn end_when_idle(live: Weak<Live>, world: Weak<World>) {
    let mut wait = Duration::ZERO;
    loop {
        tokio::time::sleep(wait.max(Duration::from_millis(10))).await;
        let (Some(live), Some(world)) = (live.upgrade(), world.upgrade()) else { return };
        let due = {
            let activity = live.activity();
            let rest = activity.limit.saturating_sub(activity.last.elapsed());
            match (activity.limit.is_zero(), activity.under_way) {
                (true, _) => Err(Duration::from_secs(60)),
                (false, 0) if rest.is_zero() => Ok(()),
                (false, 0) => Err(rest),
                (false, _) => Err(activity.limit),
            }
        };
        match due {
            Err(rest) => wait = rest.min(Duration::from_secs(60)),
            Ok(()) => {
                world.code.forget_idle(&live);
                return;
            }
        }
    }
}

impl Code {
    /// What is in memory of the sandbox's code, for an activity of it. Errors:
    /// `SANDBOX_DESTROYED` where the activity is of an earlier life.
    pub(super) async fn live(&self, world: &World, busy: &Busy) -> Result<(Arc<Live>, InUse)> {
        let (live, in_use) = {
            let mut all = self.all();
            let known = all.get(busy.object()).cloned();
            let live = match known {
                Some(live) if live.life == busy.created_at() => live,
                Some(live) if live.life > busy.created_at() => return Err(errors::destroyed()),
                _ => {
                    let live = Arc::new(Live::new(*busy.object(), busy.created_at()));
                    all.insert(*busy.object(), live.clone());
                    live
                }
            };
            // Counted before anybody can forget it as idle.
            let mut activity = live.activity();
            activity.under_way += 1;
            activity.limit = Duration::from_millis(busy.settings().time.idle_limit_ms);
            drop(activity);
            (live.clone(), InUse(live))
        };
        live.tidy.get_or_try_init(|| packs::tidy(world, *busy.object())).await?;
        Ok((live, in_use))
    }

    /// Forgets a sandbox's code without a worker that works; a new one begins anew.
    fn forget_idle(&self, live: &Arc<Live>) {
        let mut all = self.all();
        // Nobody is in it, and nobody can enter while the map is held: there are never two.
        if live.activity().under_way == 0
            && all.get(&live.object).is_some_and(|known| Arc::ptr_eq(known, live))
        {
            all.remove(&live.object);
        }
    }

    /// Ends the worker of a sandbox that goes. Its executions have ended.
    pub fn retire(&self, object: &ObjectId) {
        self.all().remove(object);
    }
}
