//! kill -9 and a full disk.

mod common;
#[path = "common/disk.rs"]
mod disk;

use common::{ended, execution, name, open, owner, settings, stop, vars};
use disk::Disk;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use store::{Error, Store};
use types::{ListFilter, State};

const CHILD: &str = "STORE_TEST_DIR";

/// Not a test by itself: the process that the next test kills. Says what was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_writes() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let store = open(Path::new(&dir));
    let run = std::process::id();
    let mut tasks = tokio::task::JoinSet::new();
    for w in 0..16 {
        let store = store.clone();
        tasks.spawn(async move {
            for i in 0..1_000_000 {
                let name = name("ada", &format!("r{run}.{w}.{i}"));
                store.start(&name, &settings(), 1, Some(5)).await.unwrap();
                say(&format!("started {}", name.id));
                let object = name.object_id();
                store.exec_started(&object, &execution("e", 1, 2));
                assert!(
                    store.stop(&object, &stop(1, 3), Some(name.id.as_str()), None).await.unwrap()
                );
                say(&format!("stopped {}", name.id));
                if i % 2 == 0 {
                    store.finish_destroy(&object, None).await.unwrap();
                    say(&format!("destroyed {}", name.id));
                }
            }
        });
    }
    tasks.join_all().await;
}

/// One write of a whole line: the test reads no half ones.
fn say(line: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut told = std::collections::HashMap::<String, String>::new();
    for round in 0..25 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut count = 0;
        for line in lines.map_while(Result::ok) {
            if let Some((what, id)) = line.split_once(' ') {
                if !matches!(what, "started" | "stopped" | "destroyed") {
                    panic!("the child says {line}");
                }
                told.insert(id.to_owned(), what.to_owned());
                count += 1;
            }
            // A number that differs by round: the kill meets other places of the work.
            if count == 20 + round * 13 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(count > 0);

        let store = open(dir.path());
        let payloads: Vec<_> =
            store.outbox(u32::MAX).await.unwrap().into_iter().map(|o| o.payload).collect();
        let queued: std::collections::HashSet<_> = payloads.iter().collect();
        assert_eq!(queued.len(), payloads.len(), "one stop each");
        for (id, what) in &told {
            let name = name("ada", id);
            let object = name.object_id();
            let row = store.load(&object).await.unwrap();
            let stops = store.stops(&object, 0).await.unwrap();
            // What was told is there; the next step may be there too, whole.
            match what.as_str() {
                "started" => assert!(row.is_some() || stops.len() == 1, "{id}"),
                _ => assert!(stops.len() == 1 && queued.contains(id), "{id} {what} {stops:?}"),
            }
            if what == "destroyed" {
                assert!(row.is_none() && store.known(&object).await.unwrap(), "{id}");
            }
            if let Some(row) = row {
                let running = row.record.unwrap().state == State::Running;
                assert_eq!(stops.is_empty(), running, "{id}: the halves of a commit agree");
                assert_eq!(running, !queued.contains(id), "{id}");
            }
        }
        store.close().await;
    }
    assert!(told.len() > 200, "{}", told.len());
}

/// Creates until the disk is full; the ids that were acknowledged.
async fn until_full(store: &Store, round: usize) -> Vec<String> {
    let env = vars(&[("A", &"x".repeat(3000))]);
    let mut made = Vec::new();
    for i in 0..100_000 {
        let id = format!("f{round}.{i}");
        match store.create(&name("ada", &id), &settings(), &env, 1, None).await {
            Ok(_) => made.push(id),
            Err(Error::Full) => return made,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("the disk never filled");
}

#[tokio::test]
async fn on_a_full_disk_what_frees_space_still_works() {
    let Some((dir, disk)) = Disk::new(32) else { return };
    let store = open(&dir.path().join("data"));
    let mut objects = Vec::new();
    for i in 0..400 {
        let name = name("ada", &format!("s{i}"));
        store.start(&name, &settings(), 1, Some(9)).await.unwrap();
        objects.push(name.object_id());
    }
    let mut kept = Vec::new();
    for round in 0..3 {
        disk.fill();
        kept.extend(until_full(&store, round).await);
        let page = store.list(&owner("ada"), &ListFilter::default(), 500, None).await.unwrap();
        assert!(page.sandboxes.len() >= 300);
        for (i, object) in objects.iter().enumerate().skip(round * 100).take(100) {
            if i % 100 == 50 {
                // Others take what was given back; the log keeps its own space.
                disk.fill();
            }
            match i % 4 {
                0 => assert!(store.stop(object, &stop(1, 2), Some("{}"), None).await.unwrap()),
                1 => {
                    assert!(store.begin_destroy(object, 2).await.unwrap());
                    store.finish_destroy(object, Some((&stop(1, 2), Some("{}")))).await.unwrap();
                    assert_eq!(store.load(object).await.unwrap(), None);
                }
                2 => store.expire(object, Some((&stop(1, 2), None)), 3).await.unwrap(),
                _ => store.set_alarm(object, None).await.unwrap(),
            }
            store.touch(object, 50 + round as i64);
        }
        // Space again: no restart is needed, and the reserve is set aside anew.
        disk.free();
        let late = name("ada", &format!("late{round}"));
        store.start(&late, &settings(), 1, None).await.unwrap();
        let reserve = dir.path().join("data").join("store.reserve");
        assert!(fs::metadata(reserve).unwrap().len() >= 4 << 20);
    }
    store.close().await;
    let store = open(&dir.path().join("data"));
    for id in &kept {
        assert!(store.load(&name("ada", id).object_id()).await.unwrap().is_some(), "{id}");
    }
    for (i, object) in objects.iter().enumerate() {
        let stops = store.stops(object, 0).await.unwrap().len();
        assert_eq!(stops, usize::from(i < 300 && i % 4 != 3), "s{i}");
    }
    // What nobody awaited was kept over the full disk as well.
    let touched = store.load(&objects[3]).await.unwrap().unwrap();
    assert_eq!(touched.last_activity, 50);
    store.close().await;
}

#[tokio::test]
async fn a_store_opens_on_a_full_disk() {
    let Some((dir, disk)) = Disk::new(16) else { return };
    let data = dir.path().join("data");
    let store = open(&data);
    let name = name("ada", "notes");
    store.start(&name, &settings(), 1, None).await.unwrap();
    store.close().await;
    disk.fill();
    let store = open(&data);
    assert_eq!(store.running().await.unwrap().len(), 1);
    assert!(store.stop(&name.object_id(), &stop(1, 2), None, None).await.unwrap());
    disk.free();
    let e = ended(&execution("e", 1, 1), 0);
    store.exec_ended(&name.object_id(), &e).await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_full_disk_without_a_store_is_named() {
    let Some((dir, disk)) = Disk::new(1) else { return };
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    disk.fill();
    let result = Store::open(store::Options { dir: data.clone() });
    assert!(matches!(result, Err(Error::Full | Error::File { .. })), "{result:?}");
    disk.free();
    open(&data).close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_small_under_many_writers_and_readers() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let env = vars(&[("A", &"x".repeat(20_000))]);
    let mut tasks = tokio::task::JoinSet::new();
    for w in 0..64 {
        let (store, env) = (store.clone(), env.clone());
        tasks.spawn(async move {
            for i in 0..60 {
                let name = name("ada", &format!("s{w}.{i}"));
                store.create(&name, &settings(), &env, 1, Some(1)).await.unwrap();
                assert!(store.load(&name.object_id()).await.unwrap().is_some());
                store.directory(&owner("ada")).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(store.directory(&owner("ada")).await.unwrap().len(), 64 * 60);
    let size = fs::metadata(dir.path().join("store.db-wal")).unwrap().len();
    // 76 MB of values were written.
    assert!(size <= 48 << 20, "{size}");
    store.close().await;
}
