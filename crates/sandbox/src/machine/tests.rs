//! Any sequence of what can happen keeps the rules of the machine.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug, Clone)]
enum Step {
    Want,
    Stop,
    Destroy,
    Reclaim {
        busy: bool,
    },
    Alarm {
        busy: bool,
        idle: bool,
        ttl: bool,
    },
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
        2 => Just(Step::Stop),
        1 => Just(Step::Destroy),
        2 => (any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(busy, idle, ttl)| Step::Alarm { busy, idle, ttl }),
        1 => any::<bool>().prop_map(|busy| Step::Reclaim { busy }),
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
                Effect::Kill { why, .. } => {
                    assert!(self.alive.is_some(), "killed without an instance");
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
            Phase::Up { .. } | Phase::Stopping { .. } => {
                assert!(self.alive.is_some());
                assert_eq!(open, 1, "it lives, so its stop is not recorded");
            }
        }
        assert_eq!(self.machine.wanted, self.waiting > 0, "wanted, and who waits");
        if matches!(self.machine.phase, Phase::Stopping { .. }) {
            assert!(self.kill, "stopping without a kill");
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
            }
            Step::Stop => self.feed(Event::Stop { why: Why::of(Cause::Stopped), grace_ms: 0 }),
            Step::Destroy => self.feed(Event::Destroy),
            Step::Alarm { busy, idle, ttl } => {
                self.feed(Event::Alarm { busy, idle_due: idle, ttl_due: ttl });
            }
            Step::Reclaim { busy } => {
                let before = self.machine.clone();
                self.feed(Event::Reclaim { busy });
                let ends = !busy
                    && before.finish.is_none()
                    && matches!(before.phase, Phase::Up { .. })
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
