//! The life of a sandbox's instances, as a pure function: (state, event) → (state, effects).
//!
//! ```text
//!            Wanted                StartCommitted            Launched
//!   Down ───────────► Intending ───────────────► Starting ───────────► Up ────────────────┐
//!    ▲ ▲                  │ StartRefused             │ LaunchFailed    │ ▲  Stop, idle,   │
//!    │ └──────────────────┘◄─────────────────────────┘                 │ │  expiry, where │
//!    │                          Stop, Destroy, idle, reclaim, expiry   │ │  `beforeStop`  │
//!    │                                                                 │ │  is set        ▼
//!    │                                                                 │ └───────────── Closing
//!    │                                                                 │ Wanted, Active   │
//!    │                       Ended                                     ▼                  │
//!    └────────────────────────────────────────────────────────────── Stopping ◄───────────┘
//!                                                     Prepared, Destroy, reclaim
//!      (Up, Closing ── Ended ──► Down: it ended by itself)
//! ```
//!
//! Only the driver (`object.rs`) moves it, one event at a time. Beside the phase stand the
//! *finish* (a destroy or an expiry that waits for `Down`) and *wanted* (somebody waits for an
//! instance). Rules that the property test holds: one record per committed start; nothing is
//! launched before its start is committed; the first reason wins; an event of an earlier
//! generation changes nothing; after a destroy is done nothing runs; what is done before a stop is
//! over before the kill, and an activity gives a stop up that no caller asked for.

use containers::{Ending, Main};
use serde::{Deserialize, Serialize};
use types::Cause;

/// Why we end an instance. Kept with the instance, so that it outlives this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Why {
    /// In words.
    pub reason: String,
    /// As a cause.
    pub cause: Cause,
}

impl Why {
    /// The usual words of a cause.
    pub fn of(cause: Cause) -> Self {
        Self { reason: cause.reason().to_owned(), cause }
    }
}

/// Where the present instance is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is none.
    Down,
    /// Its start is being committed.
    Intending,
    /// It is being launched; `stop`: to be ended as soon as it is up.
    Starting { generation: u64, stop: Option<Why> },
    /// It runs.
    Up { generation: u64 },
    /// It is about to be stopped, and `beforeStop` is under way.
    Closing { generation: u64, why: Why, grace_ms: u64, by: By },
    /// It is being ended.
    Stopping { generation: u64, why: Why },
}

/// Who wants an instance stopped, once `beforeStop` is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The idle limit; any activity overrules it.
    Idle,
    /// The end of the sandbox's time; any activity overrules it.
    Expiry,
    /// A caller.
    Caller,
}

/// What is to be done once there is no instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The sandbox goes.
    Destroy,
    /// All but its directory entry and record goes.
    Expire,
}

impl Finish {
    fn cause(self) -> Cause {
        match self {
            Finish::Destroy => Cause::Destroyed,
            Finish::Expire => Cause::Expired,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Somebody wants an instance.
    Wanted,
    /// The start intent is in the store.
    StartCommitted { generation: u64 },
    /// The start intent could not be stored.
    StartRefused,
    /// The instance runs.
    Launched { generation: u64 },
    /// The instance could not be started; the engine's words.
    LaunchFailed { generation: u64, error: String, at_ms: i64 },
    /// The instance is gone.
    Ended { generation: u64, ending: Ending },
    /// A caller stops it; `prepare`: there is something to be done before.
    Stop { why: Why, grace_ms: u64, prepare: bool },
    /// The machine is short of memory: it ends if it is idle.
    Reclaim { busy: bool },
    /// What was to be done before the stop of this instance is over, or its time is.
    Prepared { generation: u64 },
    /// An activity began that needs no instance.
    Active,
    /// A caller destroys the sandbox; the intent is in the store.
    Destroy,
    /// The finish is done and in the store.
    Finished,
    /// The finish could not be done; the next destroy, alarm or want tries again.
    FinishFailed,
    /// The alarm: what is due now.
    Alarm { busy: bool, idle_due: bool, ttl_due: bool, prepare: bool },
}

/// Why those who wait for an instance do not get one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The store refused the start; the driver has its error.
    Store,
    /// The engine failed; the driver has its error.
    Start,
    /// A stop overtook them.
    Stopped(Why),
    /// A destroy overtook them.
    Destroyed,
}

/// What the driver shall do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Store the start intent, then feed `StartCommitted` or `StartRefused`.
    CommitStart,
    /// Start the instance, then feed `Launched` or `LaunchFailed`.
    Launch { generation: u64 },
    /// Give the instance to those who wait.
    Grant,
    /// Refuse those who wait.
    Refuse(Refusal),
    /// Tell of the stop and do what is to be done before it, then feed `Prepared`.
    Prepare { generation: u64, why: Why },
    /// End what `Prepare` began: there is no need for it any more.
    Relent,
    /// End the instance; `Ended` follows by itself.
    Kill { grace_ms: u64, why: Why },
    /// Store the stop, then let the engine forget the instance.
    Record { generation: u64, stop: Verdict },
    /// Answer those who wait for a stop.
    AnswerStops,
    /// Do the finish, then feed `Finished`.
    Finish(Finish),
}

/// How an instance ended, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub reason: String,
    pub exit_code: Option<i32>,
    pub cause: Cause,
    pub at_ms: i64,
}

/// The state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    pub phase: Phase,
    pub finish: Option<Finish>,
    pub wanted: bool,
}

impl Machine {
    pub fn new(phase: Phase, finish: Option<Finish>) -> Self {
        Self { phase, finish, wanted: false }
    }

    /// The instance that is taken to exist.
    pub fn generation(&self) -> Option<u64> {
        match self.phase {
            Phase::Down | Phase::Intending => None,
            Phase::Starting { generation, .. }
            | Phase::Up { generation }
            | Phase::Closing { generation, .. }
            | Phase::Stopping { generation, .. } => Some(generation),
        }
    }

    /// Takes an event; what to do comes back.
    pub fn on(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        let out = &mut effects;
        match event {
            Event::Wanted => self.wanted(out),
            Event::StartCommitted { generation } => {
                if self.phase == Phase::Intending {
                    let stop = self.finish.map(|f| Why::of(f.cause()));
                    self.phase = Phase::Starting { generation, stop };
                    out.push(Effect::Launch { generation });
                }
            }
            Event::StartRefused => {
                if self.phase == Phase::Intending {
                    self.phase = Phase::Down;
                    self.refuse(Refusal::Store, out);
                }
            }
            Event::Launched { generation } => self.launched(generation, out),
            Event::LaunchFailed { generation, error, at_ms } => {
                if matches!(self.phase, Phase::Starting { generation: g, .. } if g == generation) {
                    let stop =
                        Verdict { reason: error, exit_code: None, cause: Cause::Failed, at_ms };
                    out.push(Effect::Record { generation, stop });
                    self.refuse(Refusal::Start, out);
                    self.down(out);
                }
            }
            Event::Ended { generation, ending } => {
                let why = match &self.phase {
                    Phase::Up { generation: g } | Phase::Closing { generation: g, .. }
                        if *g == generation =>
                    {
                        None
                    }
                    Phase::Stopping { generation: g, why } if *g == generation => Some(why.clone()),
                    _ => return effects,
                };
                if matches!(self.phase, Phase::Closing { .. }) {
                    out.push(Effect::Relent);
                }
                out.push(Effect::Record { generation, stop: verdict(&ending, why) });
                self.down(out);
            }
            Event::Stop { why, grace_ms, prepare } => self.stop(why, grace_ms, prepare, out),
            Event::Prepared { generation } => self.prepared(generation, out),
            Event::Active => self.relent(out),
            Event::Reclaim { busy } => {
                if self.idles(busy) {
                    self.end(Why::of(Cause::Reclaimed), 0, out);
                }
            }
            Event::Destroy => {
                self.finish = Some(Finish::Destroy);
                self.refuse(Refusal::Destroyed, out);
                self.end(Why::of(Cause::Destroyed), 0, out);
            }
            Event::Finished => {
                self.finish = None;
                if self.wanted {
                    self.wanted(out);
                }
            }
            Event::FinishFailed => self.refuse(Refusal::Store, out),
            Event::Alarm { busy, idle_due, ttl_due, prepare } => {
                let up = matches!(self.phase, Phase::Up { .. });
                let closing = matches!(self.phase, Phase::Closing { .. });
                if let (Phase::Down, Some(finish)) = (&self.phase, self.finish) {
                    out.push(Effect::Finish(finish));
                } else if busy || closing || self.finish.is_some() || self.wanted {
                } else if ttl_due && up && prepare {
                    self.close(Why::of(Cause::Expired), 0, By::Expiry, out);
                } else if idle_due && up && prepare {
                    self.close(Why::of(Cause::Idle), 0, By::Idle, out);
                } else if ttl_due {
                    self.finish = Some(Finish::Expire);
                    self.end(Why::of(Cause::Expired), 0, out);
                } else if idle_due && up {
                    self.end(Why::of(Cause::Idle), 0, out);
                }
            }
        }
        effects
    }

    /// Whether an instance runs that nobody needs just now.
    fn idles(&self, busy: bool) -> bool {
        let asked = busy || self.finish.is_some() || self.wanted;
        let closes = matches!(self.phase, Phase::Closing { by: By::Idle | By::Expiry, .. });
        !asked && (closes || matches!(self.phase, Phase::Up { .. }))
    }

    fn wanted(&mut self, out: &mut Vec<Effect>) {
        self.relent(out);
        match (&self.phase, self.finish) {
            (_, Some(Finish::Destroy)) => out.push(Effect::Refuse(Refusal::Destroyed)),
            (Phase::Down, None) => {
                self.wanted = true;
                self.phase = Phase::Intending;
                out.push(Effect::CommitStart);
            }
            (Phase::Up { .. }, None) => out.push(Effect::Grant),
            (Phase::Down, Some(finish)) => {
                self.wanted = true;
                out.push(Effect::Finish(finish));
            }
            _ => self.wanted = true,
        }
    }

    fn launched(&mut self, generation: u64, out: &mut Vec<Effect>) {
        let Phase::Starting { generation: g, stop } = &mut self.phase else { return };
        if *g != generation {
            return;
        }
        match stop.take() {
            None => {
                self.phase = Phase::Up { generation };
                self.wanted = false;
                out.push(Effect::Grant);
            }
            Some(why) => {
                self.phase = Phase::Stopping { generation, why: why.clone() };
                out.push(Effect::Kill { grace_ms: 0, why });
            }
        }
    }

    /// Begins what is to be done before the stop.
    fn close(&mut self, why: Why, grace_ms: u64, by: By, out: &mut Vec<Effect>) {
        if let Phase::Up { generation } = self.phase {
            out.push(Effect::Prepare { generation, why: why.clone() });
            self.phase = Phase::Closing { generation, why, grace_ms, by };
        }
    }

    /// Gives up a stop that nobody asked for: the sandbox is not idle any more.
    fn relent(&mut self, out: &mut Vec<Effect>) {
        if let Phase::Closing { generation, by: By::Idle | By::Expiry, .. } = self.phase {
            self.phase = Phase::Up { generation };
            out.push(Effect::Relent);
        }
    }

    fn prepared(&mut self, generation: u64, out: &mut Vec<Effect>) {
        let Phase::Closing { generation: g, why, grace_ms, by } = &self.phase else { return };
        if *g != generation {
            return;
        }
        let (why, grace_ms) = (why.clone(), *grace_ms);
        if *by == By::Expiry {
            self.finish.get_or_insert(Finish::Expire);
        }
        self.phase = Phase::Stopping { generation, why: why.clone() };
        out.push(Effect::Kill { grace_ms, why });
    }

    fn stop(&mut self, why: Why, grace_ms: u64, prepare: bool, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Down | Phase::Intending) {
            return out.push(Effect::AnswerStops);
        }
        // Also those who wait while a dying instance's end has not been told yet.
        if self.wanted {
            self.refuse(Refusal::Stopped(why.clone()), out);
        }
        match &mut self.phase {
            Phase::Up { .. } if prepare => self.close(why, grace_ms, By::Caller, out),
            // What is done before a stop is done once, and then it is this caller's stop.
            Phase::Closing { why: first, grace_ms: grace, by, .. } if prepare => {
                if *by == By::Caller {
                    *grace = grace_ms.min(*grace);
                } else {
                    (*first, *grace, *by) = (why, grace_ms, By::Caller);
                }
            }
            _ => self.end(why, grace_ms, out),
        }
    }

    /// Ends the present instance; without one the finish may be done at once.
    fn end(&mut self, why: Why, grace_ms: u64, out: &mut Vec<Effect>) {
        match &mut self.phase {
            Phase::Down => out.extend(self.finish.map(Effect::Finish)),
            Phase::Intending => {}
            Phase::Starting { stop, .. } => {
                stop.get_or_insert(why);
            }
            Phase::Up { generation } => {
                self.phase = Phase::Stopping { generation: *generation, why: why.clone() };
                out.push(Effect::Kill { grace_ms, why });
            }
            // The first reason stands, if it was a caller's.
            Phase::Closing { generation, why: first, by, .. } => {
                let (generation, first) = (*generation, first.clone());
                let why = if *by == By::Caller { first } else { why };
                out.push(Effect::Relent);
                self.phase = Phase::Stopping { generation, why: why.clone() };
                out.push(Effect::Kill { grace_ms, why });
            }
            // A second order can only shorten the wait; the first reason stands.
            Phase::Stopping { why, .. } => {
                out.push(Effect::Kill { grace_ms, why: why.clone() });
            }
        }
    }

    /// There is no instance any more.
    fn down(&mut self, out: &mut Vec<Effect>) {
        self.phase = Phase::Down;
        out.push(Effect::AnswerStops);
        if let Some(finish) = self.finish {
            out.push(Effect::Finish(finish));
        } else if self.wanted {
            self.wanted(out);
        }
    }

    fn refuse(&mut self, refusal: Refusal, out: &mut Vec<Effect>) {
        self.wanted = false;
        out.push(Effect::Refuse(refusal));
    }
}

/// What is recorded of an ending (section 5 of the contract). `why`: our order, if there was
/// one; it counts only where the engine says that an order ended it.
pub(crate) fn verdict(ending: &Ending, why: Option<Why>) -> Verdict {
    let (why, exit_code, at_ms) = match ending {
        Ending::Main { main, oom, at_ms } => {
            let (cause, code) = match main {
                Main::Code(code) => (Cause::Exited, *code),
                Main::Signal(signal) if *oom => (Cause::Oom, 128 + signal),
                Main::Signal(signal) => (Cause::Signalled, 128 + signal),
            };
            (Why::of(cause), Some(code), *at_ms)
        }
        Ending::Stopped { note, at_ms } => {
            let noted = note.as_deref().and_then(|n| serde_json::from_str(n).ok());
            (noted.or(why).unwrap_or(Why::of(Cause::Stopped)), None, *at_ms)
        }
        Ending::Inactivity { at_ms } => (Why::of(Cause::Inactivity), None, *at_ms),
        Ending::DiskFull { at_ms } => (Why::of(Cause::DiskFull), None, *at_ms),
        Ending::Unknown { at_ms } => (Why::of(Cause::Unknown), None, *at_ms),
        Ending::NodeLost { at_ms } => (Why::of(Cause::NodeLost), None, *at_ms),
    };
    Verdict { reason: why.reason, exit_code, cause: why.cause, at_ms }
}

#[cfg(test)]
mod tests;
