//! A great many old rows go, and nobody waits for them.

use super::*;
use std::collections::BTreeMap;
use std::time::Instant;
use store::{Options, StopRecord};
use types::{Cause, ExecStatus, Execution, Owner, SandboxName, Settings, TimeDefaults};

const DAY: i64 = 86_400_000;

fn name(id: &str) -> SandboxName {
    SandboxName::new(Owner::local(), id.parse().unwrap())
}

fn execution(id: String, at: i64) -> Execution {
    Execution {
        id,
        generation: 1,
        argv: vec!["true".to_owned()],
        status: ExecStatus::Exited,
        started_at: at,
        ended_at: Some(at),
        exit_code: Some(0),
        signal: None,
        timed_out: false,
        oom_killed: false,
    }
}

/// Many writes at once are one commit.
async fn fill(store: &Store, rounds: std::ops::Range<i64>, at: i64) {
    let defaults = Settings::defaults(TimeDefaults::default());
    for round in rounds {
        let writes = (0..500).map(|n| {
            let (store, defaults) = (store.clone(), defaults.clone());
            tokio::spawn(async move {
                let name = name(&format!("s{n}"));
                let generation = store.start(&name, &defaults, at, None).await.unwrap().generation;
                let stop = StopRecord {
                    generation,
                    reason: "idle".to_owned(),
                    exit_code: None,
                    cause: Cause::Idle,
                    stopped_at: at,
                };
                let object = name.object_id();
                let mut execution = execution(format!("e{round}"), at);
                execution.generation = generation;
                store.exec_ended(&object, &execution).await.unwrap();
                assert!(store.stop(&object, &stop, None, None).await.unwrap());
            })
        });
        for write in writes.collect::<Vec<_>>() {
            write.await.unwrap();
        }
    }
}

fn size(dir: &std::path::Path) -> u64 {
    std::fs::metadata(dir.join("store.db")).unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_fifty_thousand_old_rows_go_in_batches_while_others_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options { dir: dir.path().into() }).unwrap();
    let keep = Retention::default();
    let now = 1000 * DAY;
    fill(&store, 0..50, now - 31 * DAY).await;
    // Young ones, which stay, and one that is gone but not forgotten.
    fill(&store, 100..101, now - DAY).await;
    let gone = name("s7").object_id();
    store.begin_destroy(&gone, now - DAY).await.unwrap();
    store.finish_destroy(&gone, None).await.unwrap();
    let sweeping = {
        let store = store.clone();
        tokio::spawn(async move { sweep(&store, now, &keep).await.unwrap() })
    };
    let (mut reads, mut slowest) = (0, Duration::ZERO);
    while !sweeping.is_finished() {
        let began = Instant::now();
        assert_eq!(store.directory(&Owner::local()).await.unwrap().len(), 499);
        store
            .create(
                &name("new"),
                &Settings::defaults(TimeDefaults::default()),
                &BTreeMap::new(),
                now,
                None,
            )
            .await
            .unwrap();
        store.begin_destroy(&name("new").object_id(), now).await.unwrap();
        store.finish_destroy(&name("new").object_id(), None).await.unwrap();
        slowest = slowest.max(began.elapsed());
        reads += 1;
    }
    println!("{reads} rounds of reads and writes meanwhile, the slowest took {slowest:?}");
    assert!(reads > 20, "they waited for the sweep");
    // 25 000 stops, and the executions of all but the destroyed one, whose went before.
    assert_eq!(sweeping.await.unwrap(), 25_000 + 24_950);
    assert_eq!(store.stops(&name("s1").object_id(), 0).await.unwrap().len(), 1);
    assert_eq!(store.executions(&name("s1").object_id(), 9).await.unwrap().len(), 1);
    assert!(store.known(&gone).await.unwrap());
    assert_eq!(sweep(&store, now, &keep).await.unwrap(), 0);
    // The events of all that were written now, and go by their own rule.
    store.sweep_events(i64::MAX, 0, u32::MAX).await.unwrap();
    // The space is used again: as much once more makes the file no larger.
    let before = size(dir.path());
    fill(&store, 200..240, now - 40 * DAY).await;
    sweep(&store, now, &keep).await.unwrap();
    store.close().await;
    let after = size(dir.path());
    assert!(after <= before + before / 10, "{before} bytes became {after}");
}

#[tokio::test]
async fn a_destroyed_sandbox_is_forgotten_after_its_stops() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options { dir: dir.path().into() }).unwrap();
    fill(&store, 0..1, DAY).await;
    let object = name("s1").object_id();
    store.begin_destroy(&object, 2 * DAY).await.unwrap();
    store.finish_destroy(&object, None).await.unwrap();
    let keep = Retention::default();
    sweep(&store, 90 * DAY, &keep).await.unwrap();
    assert!(store.known(&object).await.unwrap(), "90 days are not over");
    sweep(&store, 93 * DAY, &keep).await.unwrap();
    assert!(!store.known(&object).await.unwrap());
    // What was not destroyed is not old.
    assert!(store.known(&name("s2").object_id()).await.unwrap());
    assert_eq!(store.usage(&Owner::local(), 0).await.unwrap().sandboxes, 499);
}

/// Each kind goes by its own time, and none before it.
#[tokio::test]
async fn each_kind_is_kept_as_long_as_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options { dir: dir.path().into() }).unwrap();
    let days = |n: i64| (n * DAY).unsigned_abs();
    let keep =
        Retention { stops: days(3), executions: days(5), sandboxes: days(7), events: days(9) };
    let then = 1000 * DAY;
    let defaults = Settings::defaults(TimeDefaults::default());
    for id in ["stays", "goes"] {
        let name = name(id);
        let generation = store.start(&name, &defaults, then, None).await.unwrap().generation;
        let stop = StopRecord {
            generation,
            reason: "idle".to_owned(),
            exit_code: None,
            cause: Cause::Idle,
            stopped_at: then,
        };
        store.exec_ended(&name.object_id(), &execution(format!("e-{id}"), then)).await.unwrap();
        store.stop(&name.object_id(), &stop, None, None).await.unwrap();
    }
    let (stays, goes) = (name("stays").object_id(), name("goes").object_id());
    store.begin_destroy(&goes, then).await.unwrap();
    store.finish_destroy(&goes, None).await.unwrap();
    // A millisecond before each end, and behind it: stops, commands, what is gone.
    for (age, left) in [
        (3 * DAY, (2, 1, true)),
        (3 * DAY + 1, (0, 1, true)),
        (5 * DAY, (0, 1, true)),
        (5 * DAY + 1, (0, 0, true)),
        (7 * DAY, (0, 0, true)),
        (7 * DAY + 1, (0, 0, false)),
    ] {
        sweep(&store, then + age, &keep).await.unwrap();
        let mut stops = store.stops(&stays, 0).await.unwrap().len();
        stops += store.stops(&goes, 0).await.unwrap().len();
        let commands = store.executions(&stays, 9).await.unwrap().len();
        let known = store.known(&goes).await.unwrap();
        assert_eq!((stops, commands, known), left, "{age} ms later");
    }
    assert!(store.load(&stays).await.unwrap().is_some(), "what is there is not old");
    // Events are dated by the machine's own clock.
    let count = async || {
        store.events(&store::EventFilter::default(), None, 100).await.unwrap().events.len()
    };
    let now = Clock::default().now_ms();
    let all = count().await;
    assert!(all >= 5, "two lives, and an end");
    sweep_events(&store, now + 8 * DAY, &keep).await.unwrap();
    assert_eq!(count().await, all);
    sweep_events(&store, now + 10 * DAY, &keep).await.unwrap();
    assert_eq!(count().await, 0);
    // Without a word: what the contract says.
    let usual = Retention::default();
    assert_eq!((usual.stops, usual.sandboxes), (days(30), days(90)));
}
