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
use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use store::ContextRow;
use tokio::sync::{Mutex as AsyncMutex, OnceCell, OwnedMutexGuard, watch};
use tokio::time::Instant;
use types::{Error, ErrorCode, ObjectId, Result};
use workspace::Workspace;

/// Executions that wait for one context; more are refused.
const WAITING: usize = 256;

/// The code of one life of a sandbox.
pub(super) struct Live {
    object: ObjectId,
    /// When that life began.
    life: i64,
    /// Left-overs of crashes are removed.
    tidy: OnceCell<()>,
    workspace: OnceCell<Workspace>,
    /// The directory of its contexts.
    contexts: OnceCell<OwnedFd>,
    worker: AsyncMutex<Option<Worker>>,
    queues: Mutex<HashMap<String, Arc<Queue>>>,
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
    /// How many turns were taken.
    turns: AtomicU64,
    waiting: AtomicUsize,
    /// The directory of its packs.
    packs: OnceCell<OwnedFd>,
    /// Packs that no row names may lie there.
    untidy: AtomicBool,
    known: Mutex<Known>,
    deleted: watch::Sender<bool>,
}

/// What the last execution knew, so that the next one need not ask for it. Whoever else has the
/// turn makes it unknown.
#[derive(Default)]
struct Known {
    /// The context's row.
    row: Option<ContextRow>,
    /// A pack that nothing names and nobody reads any more.
    spare: Option<String>,
    /// Packs that checkpoints name.
    kept: Option<Arc<BTreeSet<Vec<u8>>>>,
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
        let turn = self.turn.clone().lock_owned().await;
        self.turns.fetch_add(1, Ordering::AcqRel);
        Ok(turn)
    }

    /// Where nobody has the turn: how many there were, and the context's row where it is known.
    /// That, and what is read of the context after this, is true for whoever
    /// [took the next one](Queue::was_next).
    pub fn at_rest(&self) -> Option<(u64, Option<ContextRow>)> {
        let _turn = self.turn.try_lock().ok()?;
        Some((self.turns.load(Ordering::Acquire), self.known().row.clone()))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For who has the turn and changes the context by other means than an execution. What nothing
    /// named stays so.
    pub fn forget_known(&self) {
        let mut known = self.known();
        (known.row, known.kept) = (None, None);
    }

    /// For who has the turn: the row is this one, or is to be read again.
    pub fn set_row(&self, row: Option<ContextRow>) {
        self.known().row = row;
    }

    /// For who has the turn: a pack that may be written over. Its name is the caller's alone then.
    pub fn take_spare(&self) -> Option<String> {
        self.known().spare.take()
    }

    /// For who has the turn: this one may be written over. Gives the one that it takes the place of.
    pub fn set_spare(&self, spare: String) -> Option<String> {
        self.known().spare.replace(spare)
    }

    /// For who has the turn: the packs that checkpoints name, where that is known.
    pub fn kept(&self) -> Option<Arc<BTreeSet<Vec<u8>>>> {
        self.known().kept.clone()
    }

    /// For who has the turn and has read them.
    pub fn set_kept(&self, kept: Arc<BTreeSet<Vec<u8>>>) {
        self.known().kept = Some(kept);
    }

    /// Whether the turn that the caller has is the first one since then.
    pub fn was_next(&self, turns: u64) -> bool {
        self.turns.load(Ordering::Acquire) == turns + 1
    }

    /// Has whoever has the turn look for packs that no row names.
    pub fn make_untidy(&self) {
        self.untidy.store(true, Ordering::Release);
    }

    /// Whether such packs may be there; asked once.
    pub fn was_untidy(&self) -> bool {
        self.untidy.swap(false, Ordering::AcqRel)
    }

    /// The turn, where nobody has it.
    pub fn turn_now(&self) -> Option<OwnedMutexGuard<()>> {
        let turn = self.turn.clone().try_lock_owned().ok()?;
        self.turns.fetch_add(1, Ordering::AcqRel);
        self.forget_known();
        Some(turn)
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
            workspace: OnceCell::new(),
            contexts: OnceCell::new(),
            worker: AsyncMutex::default(),
            queues: Mutex::default(),
            making: AsyncMutex::default(),
            activity: Mutex::new(Activity { under_way: 0, last, limit }),
        }
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<String, Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turns of a context, where any was taken lately.
    pub fn known_queue(&self, context: &str) -> Option<Arc<Queue>> {
        self.queues().get(context).cloned()
    }

    /// The turns of a context that is there.
    pub fn queue(&self, context: &str) -> Arc<Queue> {
        let mut queues = self.queues();
        let queue = queues.entry(context.to_owned()).or_insert_with(|| {
            Arc::new(Queue {
                turn: Arc::default(),
                turns: AtomicU64::new(0),
                waiting: AtomicUsize::new(0),
                packs: OnceCell::new(),
                untidy: AtomicBool::new(false),
                known: Mutex::default(),
                deleted: watch::Sender::new(false),
            })
        });
        queue.clone()
    }

    /// The context is no more.
    pub fn remove_queue(&self, context: &str) {
        self.queues().remove(context);
    }

    /// The packs that were to be written over, each with its directory. Nobody runs code any more.
    fn take_spares(&self) -> Vec<(OwnedFd, String)> {
        let queues = self.queues();
        let spare = |queue: &Arc<Queue>| {
            let spare = queue.take_spare()?;
            Some((queue.packs.get()?.try_clone().ok()?, spare))
        };
        queues.values().filter_map(spare).collect()
    }

    /// The workspace, made where it is not there.
    pub async fn workspace(&self, world: &World) -> Result<&Workspace> {
        self.workspace.get_or_try_init(|| world.workspace(&self.object)).await
    }

    /// The directory of a context's packs, made where it is not there.
    pub async fn packs<'a>(
        &self,
        world: &World,
        queue: &'a Queue,
        context: &str,
    ) -> Result<&'a OwnedFd> {
        let open = || async {
            let all = self.contexts.get_or_try_init(|| packs::contexts(world, &self.object));
            packs::ensure(all.await?, context).await
        };
        queue.packs.get_or_try_init(open).await
    }

    /// Removes what crashes left, once.
    async fn tidy(&self, world: &World) -> Result<()> {
        self.tidy.get_or_try_init(|| packs::tidy(world, self.object)).await?;
        Ok(())
    }

    /// Tidied, and with a workspace and a worker where they can be had: all take their time, side
    /// by side. What keeps them from being there is told to whoever asks for them.
    pub async fn prepare(self: &Arc<Self>, world: &Arc<World>) -> Result<()> {
        let (tidied, ..) =
            tokio::join!(self.tidy(world), self.worker(world), self.workspace(world));
        tidied
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
                if world.code.forget_idle(&live) {
                    let spares = live.take_spares();
                    tokio::task::spawn_blocking(move || packs::remove_spares(spares));
                }
                return;
            }
        }
    }
}

impl Code {
    /// What is in memory of the sandbox's code, for an activity of it, tidied. Errors:
    /// `SANDBOX_DESTROYED` where the activity is of an earlier life.
    pub(super) async fn live(&self, world: &World, busy: &Busy) -> Result<(Arc<Live>, InUse)> {
        let (live, in_use) = self.enter(busy)?;
        live.tidy(world).await?;
        Ok((live, in_use))
    }

    /// The same, not tidied yet.
    pub(super) fn enter(&self, busy: &Busy) -> Result<(Arc<Live>, InUse)> {
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
        Ok((live.clone(), InUse(live)))
    }

    /// Forgets a sandbox's code without a worker that works; a new one begins anew. `false`: it is
    /// in use after all, or forgotten already.
    fn forget_idle(&self, live: &Arc<Live>) -> bool {
        let mut all = self.all();
        // Nobody is in it, and nobody can enter while the map is held: there are never two.
        if live.activity().under_way == 0
            && all.get(&live.object).is_some_and(|known| Arc::ptr_eq(known, live))
        {
            return all.remove(&live.object).is_some();
        }
        false
    }

    /// Ends the worker of a sandbox that goes. Its executions have ended.
    pub fn retire(&self, object: &ObjectId) {
        self.all().remove(object);
    }
}
