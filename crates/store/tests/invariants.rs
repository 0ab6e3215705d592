//! Any sequence of operations against a small model.

mod common;

use common::{name, open, settings, stop, vars};
use proptest::prelude::*;
use std::collections::BTreeMap;
use store::{Error, Store};
use types::State;

#[derive(Debug, Clone)]
enum Op {
    Create(u8),
    Start(u8),
    /// How many generations ago the instance was that stopped.
    Stop(u8, u64),
    Begin(u8),
    Finish(u8, Option<u64>),
    Expire(u8, Option<u64>),
    Touch(u8, i64),
    Alarm(u8, Option<i64>),
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let id = 0..3u8;
    let age = prop_oneof![4 => Just(0u64), 1 => Just(1), 1 => Just(9)];
    let maybe = proptest::option::of(age.clone());
    prop_oneof![
        3 => id.clone().prop_map(Op::Create),
        6 => id.clone().prop_map(Op::Start),
        6 => (id.clone(), age).prop_map(|(i, a)| Op::Stop(i, a)),
        2 => id.clone().prop_map(Op::Begin),
        3 => (id.clone(), maybe.clone()).prop_map(|(i, a)| Op::Finish(i, a)),
        2 => (id.clone(), maybe).prop_map(|(i, a)| Op::Expire(i, a)),
        3 => (id.clone(), 0..99i64).prop_map(|(i, t)| Op::Touch(i, t)),
        2 => (id, proptest::option::of(0..99i64)).prop_map(|(i, t)| Op::Alarm(i, t)),
        1 => Just(Op::Reopen),
    ]
}

#[derive(Debug, Default, Clone)]
struct Model {
    there: bool,
    destroying: bool,
    expired: bool,
    running: bool,
    started: bool,
    generation: u64,
    activity: i64,
    alarm: Option<i64>,
    stops: u64,
    payloads: usize,
}

impl Model {
    fn halt(&mut self, generation: Option<u64>) -> bool {
        let fits = self.there && self.running && generation == Some(self.generation);
        if fits {
            self.running = false;
            self.stops += 1;
            self.payloads += 1;
        }
        fits
    }

    fn make(&mut self, now: i64, alarm: Option<i64>) {
        let Self { generation, stops, payloads, .. } = *self;
        let fresh = Self { there: true, activity: now, alarm, ..Self::default() };
        *self = Self { generation, stops, payloads, ..fresh };
    }

    fn end(&mut self, stop: Option<u64>) {
        self.halt(stop);
        self.stops += u64::from(self.running);
        self.running = false;
        self.alarm = None;
    }
}

async fn apply(store: &Store, models: &mut BTreeMap<u8, Model>, op: &Op, now: i64) {
    let (Op::Create(i)
    | Op::Start(i)
    | Op::Stop(i, _)
    | Op::Begin(i)
    | Op::Finish(i, _)
    | Op::Expire(i, _)
    | Op::Touch(i, _)
    | Op::Alarm(i, _)) = op
    else {
        return;
    };
    let name = name("ada", &format!("s{i}"));
    let object = name.object_id();
    let m = models.entry(*i).or_default();
    let back = |age: u64| m.generation.saturating_sub(age);
    match op {
        Op::Create(_) => {
            let made = store.create(&name, &settings(), &vars(&[]), now, Some(1)).await.unwrap();
            assert_eq!(made.0, !m.there);
            if !m.there {
                m.make(now, Some(1));
            }
        }
        Op::Start(_) => {
            let result = store.start(&name, &settings(), now, Some(2)).await;
            match result {
                Err(Error::Destroying) => assert!(m.destroying),
                Err(Error::AlreadyRunning) => assert!(m.running && !m.destroying),
                Err(other) => panic!("{other:?}"),
                Ok(row) => {
                    assert!(!m.running && !m.destroying);
                    if !m.there {
                        m.make(now, None);
                    }
                    m.generation += 1;
                    assert_eq!(row.generation, m.generation);
                    (m.running, m.started, m.expired) = (true, true, false);
                    (m.activity, m.alarm) = (m.activity.max(now), Some(2));
                }
            }
        }
        Op::Stop(_, age) => {
            let generation = back(*age);
            let done =
                store.stop(&object, &stop(generation, now), Some("p"), Some(3)).await.unwrap();
            assert_eq!(done, m.halt(Some(generation)));
            if done {
                m.alarm = Some(3);
            }
        }
        Op::Begin(_) => {
            assert_eq!(store.begin_destroy(&object, now).await.unwrap(), m.there);
            m.destroying = m.there;
        }
        Op::Finish(_, age) => {
            let record = age.map(|a| stop(back(a), now));
            let given = record.as_ref().map(|r| (r, Some("p")));
            store.finish_destroy(&object, given).await.unwrap();
            if m.there {
                m.end(record.map(|r| r.generation));
                (m.there, m.destroying) = (false, false);
            }
        }
        Op::Expire(_, age) => {
            let record = age.map(|a| stop(back(a), now));
            let given = record.as_ref().map(|r| (r, Some("p")));
            store.expire(&object, given, now).await.unwrap();
            if m.there {
                m.end(record.map(|r| r.generation));
                m.expired = true;
            }
        }
        Op::Touch(_, at) => {
            store.touch(&object, *at);
            if m.there {
                m.activity = m.activity.max(*at);
            }
        }
        Op::Alarm(_, at) => {
            store.set_alarm(&object, *at).await.unwrap();
            if m.there {
                m.alarm = *at;
            }
        }
        Op::Reopen => {}
    }
}

async fn check(store: &Store, models: &BTreeMap<u8, Model>) {
    let mut payloads = 0;
    for (i, m) in models {
        let object = name("ada", &format!("s{i}")).object_id();
        let row = store.load(&object).await.unwrap();
        assert_eq!(row.is_some(), m.there);
        let stops = store.stops(&object, i64::MIN).await.unwrap();
        assert_eq!(stops.len() as u64, m.stops);
        // One stop per start, but for the instance that runs.
        assert_eq!(stops.len() as u64 + u64::from(m.running), m.generation);
        assert!(stops.iter().rev().map(|s| s.generation).eq(1..=m.stops));
        assert_eq!(store.alarm(&object).await.unwrap(), m.alarm);
        payloads += m.payloads;
        let Some(row) = row else { continue };
        assert_eq!((row.generation, row.last_activity), (m.generation, m.activity));
        assert_eq!((row.destroying, row.expired), (m.destroying, m.expired));
        assert_eq!(row.record.is_some(), m.started && m.there);
        let running = row.record.is_some_and(|r| r.state == State::Running);
        assert_eq!(running, m.running);
    }
    assert_eq!(store.outbox(u32::MAX).await.unwrap().len(), payloads);
    let running = models.values().filter(|m| m.running).count();
    assert_eq!(store.running().await.unwrap().len(), running);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_keeps_the_invariants(ops in proptest::collection::vec(op(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let mut store = open(dir.path());
            let mut models = BTreeMap::new();
            for (now, op) in (100..).zip(&ops) {
                if matches!(op, Op::Reopen) {
                    store.close().await;
                    store = open(dir.path());
                    check(&store, &models).await;
                }
                apply(&store, &mut models, op, now).await;
            }
            store.close().await;
            check(&open(dir.path()), &models).await;
        });
    }
}

/// Starts, stops and destroys of one name by many at once: still one stop per start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_writers_at_once_keep_them_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut tasks = tokio::task::JoinSet::new();
    for w in 0..64u64 {
        let store = store.clone();
        tasks.spawn(async move {
            let name = name("ada", &format!("s{}", w % 4));
            let object = name.object_id();
            let (mut started, mut stopped) = (0, 0);
            for round in 0..30 {
                match store.start(&name, &settings(), round, None).await {
                    Ok(row) => {
                        started += 1;
                        let record = stop(row.generation, round + 1);
                        // Whoever destroys it meanwhile stops it with no text for the outbox.
                        let done = store.stop(&object, &record, Some("p"), None).await.unwrap();
                        stopped += usize::from(done);
                    }
                    Err(Error::AlreadyRunning | Error::Destroying) => {}
                    Err(other) => panic!("{other:?}"),
                }
                if (w + round as u64).is_multiple_of(7) {
                    store.begin_destroy(&object, round).await.unwrap();
                    store.finish_destroy(&object, None).await.unwrap();
                }
            }
            (w % 4, started, stopped)
        });
    }
    let results = tasks.join_all().await;
    for id in 0..4 {
        let object = name("ada", &format!("s{id}")).object_id();
        let started: u64 = results.iter().filter(|r| r.0 == id).map(|r| r.1).sum();
        let stops = store.stops(&object, i64::MIN).await.unwrap();
        assert!(started > 0);
        assert!(stops.iter().rev().map(|s| s.generation).eq(1..=started), "{started} {stops:?}");
    }
    let stopped: usize = results.iter().map(|r| r.2).sum();
    assert_eq!(store.outbox(u32::MAX).await.unwrap().len(), stopped);
}
