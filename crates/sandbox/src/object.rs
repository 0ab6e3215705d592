//! The driver: one sandbox's live copy. It feeds the machine and does what it says.

mod activities;
mod before_stop;
mod effects;
mod requests;
mod times;

use crate::busy::Busy;
use crate::errors;
use crate::machine::{Event, Finish, Machine, Phase, Verdict, Why};
use crate::world::World;
use async_trait::async_trait;
use containers::{Ending, Instance};
use objects::{AlarmFailed, Hold, Holds, Object};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use store::SandboxRow;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use types::{Error, ObjectId, Patch, Result, SandboxName, SettingsRequest};

/// Where an answer goes. A caller that went away is no error.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// A running instance for one activity, which keeps the sandbox busy while it is held.
pub(crate) struct Acquired {
    pub instance: Arc<dyn Instance>,
    pub env_vars: std::collections::BTreeMap<String, String>,
    /// Keeps the sandbox busy.
    pub hold: Option<Hold>,
}

/// What is asked of a sandbox, and what its own work tells it.
pub(crate) enum Message {
    Acquire {
        name: SandboxName,
        /// Its turn has come, of those who wait for room.
        turn: bool,
        /// What a start is told as a part of.
        span: tracing::Span,
        reply: Reply<Acquired>,
    },
    /// Somebody begins an activity without an instance; `make`: where there is no sandbox one
    /// comes into being.
    Busy {
        name: SandboxName,
        make: bool,
        reply: Reply<Busy>,
    },
    Put {
        name: SandboxName,
        request: SettingsRequest,
        reply: Reply<bool>,
    },
    Patch {
        patch: Patch,
        reply: Reply<()>,
    },
    Touch {
        reply: Reply<()>,
    },
    Stop {
        why: Why,
        grace_ms: u64,
        reply: Reply<()>,
    },
    /// Memory is short: answered once the instance has ended, or at once that it is not idle.
    Reclaim {
        reply: Reply<()>,
    },
    Destroy {
        reply: Reply<()>,
    },
    /// The verdict of an instance, once it is recorded.
    Verdict {
        generation: u64,
        reply: oneshot::Sender<Option<Verdict>>,
    },
    /// After a restart: look at what is there and set the alarm.
    Revive {
        reply: oneshot::Sender<()>,
    },
    /// An activity that began with this instance ended.
    Released {
        generation: u64,
    },
    /// An activity without an instance ended.
    Rested {
        life: u64,
    },
    Launched {
        generation: u64,
        result: std::result::Result<Arc<dyn Instance>, containers::Error>,
    },
    Ended {
        generation: u64,
        ending: Ending,
    },
    /// What was to be done before a stop is over; `round`: which one of this copy.
    Prepared {
        generation: u64,
        round: u64,
    },
}

/// How many verdicts of earlier instances are remembered for commands that still ask.
const VERDICTS: usize = 8;

pub(crate) struct SandboxObject {
    id: ObjectId,
    world: Arc<World>,
    /// `None`: not in the directory.
    row: Option<SandboxRow>,
    /// The row was read.
    loaded: bool,
    machine: Machine,
    holds: Holds,
    last_activity: Instant,
    /// When the alarm is set to.
    armed: Option<Instant>,
    /// What is done before a stop: which one of this copy, and its end.
    preparing: (u64, Option<AbortHandle>),
    /// A backstop that was changed while the instance came up, ms.
    backstop: Option<u64>,
    /// Under which name the next start is committed.
    name: Option<SandboxName>,
    /// The next start may go before those who wait for room.
    turn: bool,
    /// What a start is told as a part of, while it is asked for.
    starter: tracing::Span,
    /// Why the last start or finish failed.
    error: Option<Error>,
    /// Counts what the copy saw destroyed or expired.
    life: u64,
    /// Tells activities without an instance to end; each has a receiver.
    abort: watch::Sender<bool>,
    waiters: Vec<Reply<Acquired>>,
    /// Those who wait for an expiry to be over.
    busy_waiters: Vec<activities::Waiter>,
    stop_waiters: Vec<Reply<()>>,
    destroy_waiters: Vec<Reply<()>>,
    verdict_waiters: HashMap<u64, Vec<oneshot::Sender<Option<Verdict>>>>,
    verdicts: VecDeque<(u64, Verdict)>,
}

#[async_trait]
impl Object for SandboxObject {
    type Message = Message;
    type World = World;

    async fn activate(id: ObjectId, world: Arc<World>) -> Self {
        let mut object = Self {
            id,
            last_activity: world.clock.instant(),
            world,
            row: None,
            loaded: false,
            machine: Machine::new(Phase::Down, None),
            holds: Holds::default(),
            armed: None,
            preparing: (0, None),
            backstop: None,
            name: None,
            turn: false,
            starter: tracing::Span::none(),
            error: None,
            life: 0,
            abort: watch::Sender::new(false),
            waiters: Vec::new(),
            busy_waiters: Vec::new(),
            stop_waiters: Vec::new(),
            destroy_waiters: Vec::new(),
            verdict_waiters: HashMap::new(),
            verdicts: VecDeque::new(),
        };
        if let Err(error) = object.load().await {
            tracing::warn!(object = %id, %error, "a sandbox could not be read; trying again when it is needed");
        }
        object
    }

    async fn handle(&mut self, message: Message) {
        if let Err(error) = self.load().await {
            return refuse(message, error);
        }
        match message {
            Message::Acquire { name, turn, span, reply } => {
                self.turn = turn;
                self.starter = span;
                self.acquire(name, reply).await;
                self.starter = tracing::Span::none();
            }
            Message::Busy { name, make, reply } => self.busy(name, make, reply).await,
            Message::Put { name, request, reply } => {
                let answer = self.put(name, request).await;
                let _ = reply.send(answer);
            }
            Message::Patch { patch, reply } => {
                let answer = self.patch(patch).await;
                let _ = reply.send(answer);
            }
            Message::Touch { reply } => {
                let answer = self.touch().await;
                let _ = reply.send(answer);
            }
            Message::Stop { why, grace_ms, reply } => {
                if self.row.is_none() {
                    let _ = reply.send(Err(errors::not_found()));
                    return;
                }
                self.stop_waiters.push(reply);
                let prepare = why.cause == types::Cause::Stopped && self.prepares();
                self.feed(Event::Stop { why, grace_ms, prepare }).await;
            }
            Message::Reclaim { reply } => self.reclaim(reply).await,
            Message::Destroy { reply } => self.destroy(reply).await,
            Message::Verdict { generation, reply } => self.tell_verdict(generation, reply),
            Message::Revive { reply } => {
                self.rearm().await;
                let _ = reply.send(());
            }
            Message::Released { generation } => self.released(generation),
            Message::Rested { life } => self.rested(life),
            Message::Launched { generation, result } => self.launched(generation, result).await,
            Message::Prepared { generation, round } => self.prepared(generation, round).await,
            Message::Ended { generation, ending } => {
                self.feed(Event::Ended { generation, ending }).await;
            }
        }
    }

    async fn alarm(&mut self) -> std::result::Result<(), AlarmFailed> {
        self.load().await.map_err(|e| AlarmFailed(e.to_string()))?;
        self.on_alarm().await
    }

    fn recheck(&self) -> Duration {
        let row = self.row.as_ref();
        let ms = row.map_or(self.world.defaults.time, |r| r.settings.time).check_interval_ms;
        Duration::from_millis(ms)
    }

    fn evictable(&self) -> bool {
        self.machine.phase == Phase::Down && self.holds.count() == 0 && !self.machine.wanted
    }
}

/// Answers a message that cannot be handled, as the sandbox cannot be read.
fn refuse(message: Message, error: Error) {
    match message {
        Message::Acquire { reply, .. } => drop(reply.send(Err(error))),
        Message::Busy { reply, .. } => drop(reply.send(Err(error))),
        Message::Put { reply, .. } => drop(reply.send(Err(error))),
        Message::Patch { reply, .. }
        | Message::Touch { reply }
        | Message::Stop { reply, .. }
        | Message::Reclaim { reply }
        | Message::Destroy { reply } => drop(reply.send(Err(error))),
        Message::Verdict { .. }
        | Message::Revive { .. }
        | Message::Released { .. }
        | Message::Rested { .. } => {}
        // The instance stands among the world's; the copy finds it once it can read its row.
        Message::Launched { .. } | Message::Prepared { .. } | Message::Ended { .. } => {
            tracing::error!(%error, "an instance's event came while its sandbox could not be read");
        }
    }
}

impl SandboxObject {
    /// Reads the row, once, and takes up an instance that is there.
    async fn load(&mut self) -> Result<()> {
        if self.loaded {
            return Ok(());
        }
        self.row = self.world.store.load(&self.id).await.map_err(errors::of_store)?;
        self.loaded = true;
        let Some(row) = &self.row else { return Ok(()) };
        self.last_activity = self.world.clock.instant_of(row.last_activity);
        let finish = row.destroying.then_some(Finish::Destroy);
        let running = row.record.as_ref().is_some_and(|r| r.state == types::State::Running);
        let generation = row.generation;
        if !running {
            self.machine = Machine::new(Phase::Down, finish);
            return Ok(());
        }
        self.machine = Machine::new(Phase::Up { generation }, finish);
        self.world.ledger.active(&self.id, self.last_activity);
        // After a panic the commands of the copy before still hold.
        self.holds = self.world.holds().entry(self.id).or_default().clone();
        let instance = self.world.instances().get(&self.id).cloned();
        match instance.filter(|i| i.generation() == generation) {
            Some(instance) => self.monitor(instance),
            None => {
                let ending = Ending::Unknown { at_ms: self.world.clock.now_ms() };
                self.feed(Event::Ended { generation, ending }).await;
            }
        }
        Ok(())
    }

    /// Feeds an event and does all that follows of it.
    async fn feed(&mut self, event: Event) {
        let mut effects = VecDeque::from(self.machine.on(event));
        while let Some(effect) = effects.pop_front() {
            if let Some(event) = Box::pin(self.perform(effect)).await {
                effects.extend(self.machine.on(event));
            }
        }
        self.admit().await;
    }

    /// Tells of the instance's end when it comes.
    fn monitor(&self, instance: Arc<dyn Instance>) {
        let (world, id) = (self.world.clone(), self.id);
        tokio::spawn(async move {
            let ending = instance.ended().await;
            world.send(id, Message::Ended { generation: instance.generation(), ending });
        });
    }
}
