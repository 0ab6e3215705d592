//! Any sequence of what can happen keeps the rules of the machine.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug, Clone)]
enum Step {
    Want,
    Stop {
        prepare: bool,
    },
    Destroy,
    Reclaim {
        busy: bool,
    },
    Alarm {
        busy: bool,
        idle: bool,
        ttl: bool,
        prepare: bool,
    },
    /// What was to be done before a stop is over.
    Prepared,
    /// An activity without an instance begins.
    Activity,
    /// The launch under way ends well or badly.
    Launch(bool),
    /// The instance ends by itself.
    Exit,
    /// A kill that was ordered takes effect.
    Die,
    /// An event of an earlier instance comes late.
    Late,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Want),
        2 => any::<bool>().prop_map(|prepare| Step::Stop { prepare }),
        1 => Just(Step::Destroy),
        2 => any::<(bool, bool, bool, bool)>().prop_map(|(busy, idle, ttl, prepare)| {
            Step::Alarm { busy, idle, ttl, prepare }
        }),
        1 => any::<bool>().prop_map(|busy| Step::Reclaim { busy }),
        2 => Just(Step::Prepared),
        1 => Just(Step::Activity),
        3 => any::<bool>().prop_map(Step::Launch),
        1 => Just(Step::Exit),
        3 => Just(Step::Die),
        1 => Just(Step::Late),
    ]
}

/// The world around the machine, as far as the rules need it.
struct Rig {
    machine: Machine,
    /// What the store answers to commits and finishes, in turn; then always yes.
    answers: VecDeque<bool>,
    generation: u64,
    recorded: BTreeSet<u64>,
    launching: Option<u64>,
    alive: Option<u64>,
    kill: bool,
    /// Of which instance `beforeStop` is under way.
    preparing: Option<u64>,
    waiting: usize,
    first_why: Option<Why>,
}

impl Rig {
    fn feed(&mut self, event: Event) {
        let mut effects = VecDeque::from(self.machine.on(event));
        while let Some(effect) = effects.pop_front() {
            let next = match effect {
                Effect::CommitStart => Some(if self.answer() {
                    self.generation += 1;
                    Event::StartCommitted { generation: self.generation }
                } else {
                    Event::StartRefused
                }),
                Effect::Launch { generation } => {
                    assert_eq!(generation, self.generation, "launched without a commit");
                    assert!(self.launching.is_none() && self.alive.is_none(), "two instances");
                    self.launching = Some(generation);
                    None
                }
                Effect::Grant => {
                    assert_eq!(self.alive, Some(self.generation), "granted without an instance");
                    self.waiting = 0;
                    None
                }
                Effect::Refuse(_) => {
                    self.waiting = 0;
                    None
                }
                Effect::Prepare { generation, why } => {
                    assert_eq!(self.alive, Some(generation), "prepared without an instance");
                    assert!(!self.kill, "prepared too late");
                    assert_ne!(self.machine.finish, Some(Finish::Destroy));
                    assert_ne!(why.cause, Cause::Destroyed);
                    assert!(self.preparing.replace(generation).is_none(), "prepared twice");
                    None
                }
                Effect::Relent => {
                    assert!(self.preparing.take().is_some(), "nothing to be given up");
                    None
                }
                Effect::Kill { why, .. } => {
                    assert!(self.alive.is_some(), "killed without an instance");
                    assert!(self.preparing.is_none(), "killed before it was prepared");
                    assert_eq!(*self.first_why.get_or_insert(why.clone()), why, "another reason");
                    self.kill = true;
                    None
                }
                Effect::Record { generation, .. } => {
                    assert!(self.alive.is_none(), "recorded while it lives");
                    assert!(generation <= self.generation, "recorded without a start");
                    assert!(self.recorded.insert(generation), "recorded twice");
                    None
                }
                Effect::AnswerStops => {
                    assert!(self.alive.is_none(), "a stop answered while it lives");
                    None
                }
                Effect::Finish(_) => {
                    assert!(self.alive.is_none() && self.launching.is_none(), "finished too early");
                    Some(if self.answer() { Event::Finished } else { Event::FinishFailed })
                }
            };
            if let Some(event) = next {
                effects.extend(self.machine.on(event));
            }
        }
        self.check();
    }

    fn answer(&mut self) -> bool {
        self.answers.pop_front().unwrap_or(true)
    }

    fn check(&self) {
        let open = self.generation - self.recorded.len() as u64;
        match self.machine.phase {
            Phase::Down => {
                assert!(self.alive.is_none() && self.launching.is_none(), "down, yet it lives");
                assert_eq!(open, 0, "a start without its stop");
                assert_eq!(self.waiting, 0, "somebody waits for nothing");
            }
            Phase::Intending => panic!("a commit is answered at once"),
            Phase::Starting { .. } => assert!(self.launching.is_some()),
            Phase::Up { .. } | Phase::Closing { .. } | Phase::Stopping { .. } => {
                assert!(self.alive.is_some());
                assert_eq!(open, 1, "it lives, so its stop is not recorded");
            }
        }
        assert_eq!(self.machine.wanted, self.waiting > 0, "wanted, and who waits");
        let closing = matches!(self.machine.phase, Phase::Closing { .. });
        assert_eq!(closing, self.preparing.is_some(), "closing, and what is done before it");
        if matches!(self.machine.phase, Phase::Stopping { .. }) {
            assert!(self.kill, "stopping without a kill");
        }
    }

    /// After an activity nobody but a caller stops it.
    fn is_not_idle(&self) {
        if let Phase::Closing { by, .. } = self.machine.phase {
            assert_eq!(by, By::Caller, "busy, and it is to be stopped as idle");
        }
    }

    fn end(&mut self, ending: Ending) {
        if let Some(generation) = self.alive.take() {
            self.kill = false;
            self.first_why = None;
            self.feed(Event::Ended { generation, ending });
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Want => {
                self.waiting += 1;
                self.feed(Event::Wanted);
                self.is_not_idle();
            }
            Step::Stop { prepare } => {
                self.feed(Event::Stop { why: Why::of(Cause::Stopped), grace_ms: 0, prepare });
            }
            Step::Destroy => self.feed(Event::Destroy),
            Step::Alarm { busy, idle, ttl, prepare } => {
                self.feed(Event::Alarm { busy, idle_due: idle, ttl_due: ttl, prepare });
            }
            Step::Prepared => {
                if let Some(generation) = self.preparing.take() {
                    self.feed(Event::Prepared { generation });
                }
            }
            Step::Activity => {
                self.feed(Event::Active);
                self.is_not_idle();
            }
            Step::Reclaim { busy } => {
                let before = self.machine.clone();
                self.feed(Event::Reclaim { busy });
                let ends = !busy
                    && before.finish.is_none()
                    && matches!(
                        before.phase,
                        Phase::Up { .. } | Phase::Closing { by: By::Idle | By::Expiry, .. }
                    )
                    && self.waiting == 0;
                if ends {
                    let why = Some(Why::of(Cause::Reclaimed));
                    assert_eq!(self.first_why, why, "an idle instance was kept");
                } else {
                    assert_eq!(self.machine, before, "more than an idle instance was ended");
                }
            }
            Step::Launch(well) => {
                let Some(generation) = self.launching.take() else { return };
                if well {
                    self.alive = Some(generation);
                    self.feed(Event::Launched { generation });
                } else {
                    let error = "no".to_owned();
                    self.feed(Event::LaunchFailed { generation, error, at_ms: 0 });
                }
            }
            Step::Exit => self.end(Ending::Main { main: Main::Code(7), oom: false, at_ms: 0 }),
            Step::Die if self.kill => self.end(Ending::Stopped { note: None, at_ms: 0 }),
            Step::Die => {}
            Step::Late => {
                let before = self.machine.clone();
                let generation = self.generation.saturating_sub(1);
                if self.generation > 0 {
                    let ending = Ending::Unknown { at_ms: 0 };
                    assert_eq!(self.machine.on(Event::Ended { generation, ending }), []);
                    assert_eq!(self.machine.on(Event::Launched { generation }), []);
                    assert_eq!(self.machine.on(Event::Prepared { generation }), []);
                    assert_eq!(self.machine, before, "an earlier instance's event counted");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_sequence_keeps_the_rules(
        steps in prop::collection::vec(step(), 0..60),
        answers in prop::collection::vec(prop::bool::weighted(0.8), 0..20),
    ) {
        let mut rig = Rig {
            machine: Machine::new(Phase::Down, None),
            answers: answers.into(),
            generation: 0,
            recorded: BTreeSet::new(),
            launching: None,
            alive: None,
            kill: false,
            preparing: None,
            waiting: 0,
            first_why: None,
        };
        for step in steps {
            rig.step(step);
        }
        // Whatever happened, a destroy ends it, and nothing is left.
        rig.answers.clear();
        rig.step(Step::Destroy);
        rig.step(Step::Launch(true));
        rig.step(Step::Die);
        prop_assert_eq!(&rig.machine, &Machine::new(Phase::Down, None));
        // And the next one starts anew.
        rig.step(Step::Want);
        rig.step(Step::Launch(true));
        prop_assert_eq!(rig.alive, Some(rig.generation));
    }
}

#[test]
fn what_is_recorded_of_each_ending() {
    let code = |main, oom| {
        let v = verdict(&Ending::Main { main, oom, at_ms: 5 }, Some(Why::of(Cause::Idle)));
        (v.reason, v.exit_code, v.cause)
    };
    assert_eq!(code(Main::Code(0), false), ("exited".into(), Some(0), Cause::Exited));
    assert_eq!(code(Main::Code(7), false), ("exited".into(), Some(7), Cause::Exited));
    assert_eq!(code(Main::Signal(15), false), ("exited".into(), Some(143), Cause::Signalled));
    assert_eq!(code(Main::Signal(9), true), ("exited".into(), Some(137), Cause::Oom));
    let other = |ending| {
        let v = verdict(&ending, Some(Why::of(Cause::Idle)));
        (v.reason, v.exit_code, v.cause)
    };
    let stopped = |note: Option<&str>| Ending::Stopped { note: note.map(str::to_owned), at_ms: 5 };
    assert_eq!(other(stopped(None)), ("idle".into(), None, Cause::Idle));
    let note = r#"{"reason":"by hand","cause":"stopped"}"#;
    assert_eq!(other(stopped(Some(note))), ("by hand".into(), None, Cause::Stopped));
    let inactivity = Ending::Inactivity { at_ms: 5 };
    assert_eq!(other(inactivity), ("inactivity timeout".into(), None, Cause::Inactivity));
    let full = Ending::DiskFull { at_ms: 5 };
    assert_eq!(other(full), ("disk full".into(), None, Cause::DiskFull));
    let unknown = Ending::Unknown { at_ms: 5 };
    assert_eq!(other(unknown), ("unknown".into(), None, Cause::Unknown));
    let lost = Ending::NodeLost { at_ms: 5 };
    assert_eq!(other(lost), ("unknown".into(), None, Cause::NodeLost));
}

/// A machine with an instance that runs.
fn up() -> Machine {
    Machine::new(Phase::Up { generation: 1 }, None)
}

fn alarm(idle_due: bool, ttl_due: bool) -> Event {
    Event::Alarm { busy: false, idle_due, ttl_due, prepare: true }
}

fn stop(why: &Why, prepare: bool) -> Event {
    Event::Stop { why: why.clone(), grace_ms: 5, prepare }
}

#[test]
fn what_is_done_before_a_stop() {
    let (idle, own) = (Why::of(Cause::Idle), Why { reason: "own".into(), cause: Cause::Stopped });
    let prepare = |why: &Why| vec![Effect::Prepare { generation: 1, why: why.clone() }];
    let kill = |grace_ms, why: &Why| Effect::Kill { grace_ms, why: why.clone() };
    let prepared = Event::Prepared { generation: 1 };

    let mut machine = up();
    assert_eq!(machine.on(alarm(true, false)), prepare(&idle));
    assert_eq!(machine.on(alarm(true, true)), []);
    assert_eq!(machine.on(prepared.clone()), [kill(0, &idle)]);
    assert_eq!(machine.finish, None);

    let mut machine = up();
    assert_eq!(machine.on(alarm(true, true)), prepare(&Why::of(Cause::Expired)));
    assert_eq!(machine.finish, None, "until it is over the sandbox is there");
    assert_eq!(machine.on(prepared.clone()), [kill(0, &Why::of(Cause::Expired))]);
    assert_eq!(machine.finish, Some(Finish::Expire));

    // Somebody came.
    for event in [Event::Wanted, Event::Active] {
        for due in [alarm(true, false), alarm(false, true)] {
            let mut machine = up();
            machine.on(due);
            assert_eq!(machine.on(event.clone())[0], Effect::Relent);
            assert_eq!(machine, up());
            assert_eq!(machine.on(prepared.clone()), [], "it is late");
        }
    }

    // A caller's stop is given up for nobody; who comes gets the next instance.
    let mut machine = up();
    assert_eq!(machine.on(stop(&own, true)), prepare(&own));
    assert_eq!(machine.on(Event::Wanted), []);
    assert_eq!(machine.on(Event::Active), []);
    assert_eq!(machine.on(prepared.clone()), [kill(5, &own)]);
    assert!(machine.wanted);

    // One that comes while the idle stop is prepared is the caller's, and prepared already.
    let mut machine = up();
    machine.on(alarm(true, false));
    assert_eq!(machine.on(stop(&own, true)), []);
    assert_eq!(machine.on(prepared.clone()), [kill(5, &own)]);

    // What has no time, and a destroy, wait for nothing.
    let reclaimed = Why::of(Cause::Reclaimed);
    let mut machine = up();
    assert_eq!(machine.on(stop(&reclaimed, false)), [kill(5, &reclaimed)]);
    let mut machine = up();
    machine.on(alarm(true, false));
    assert_eq!(machine.on(stop(&reclaimed, false)), [Effect::Relent, kill(5, &reclaimed)]);
    let mut machine = up();
    machine.on(alarm(true, false));
    let gone = kill(0, &Why::of(Cause::Destroyed));
    assert_eq!(machine.on(Event::Destroy)[1..], [Effect::Relent, gone]);
    // The first reason of a caller stands.
    let mut machine = up();
    machine.on(stop(&own, true));
    assert_eq!(machine.on(Event::Destroy)[1..], [Effect::Relent, kill(0, &own)]);

    // It ended by itself.
    let mut machine = up();
    machine.on(alarm(true, false));
    let ending = Ending::Main { main: Main::Code(0), oom: false, at_ms: 5 };
    let effects = machine.on(Event::Ended { generation: 1, ending });
    assert_eq!(effects[0], Effect::Relent);
    let Effect::Record { stop, .. } = &effects[1] else { panic!("{effects:?}") };
    assert_eq!(stop.cause, Cause::Exited);
}
