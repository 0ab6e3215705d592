//! Code contexts under kill -9 and on a full disk.

mod common;
#[path = "common/disk.rs"]
mod disk;

use common::{context, name, open, settings, snapshot, state, vars};
use disk::Disk;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use store::{ContextState, Error, SnapshotRow};

const CHILD: &str = "STORE_TEST_CONTEXTS";

/// Not a test by itself: the process that the next test kills. Says what was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_executes() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let store = open(Path::new(&dir));
    let mut tasks = tokio::task::JoinSet::new();
    for w in 0..8 {
        let store = store.clone();
        tasks.spawn(async move {
            let object = name("ada", &format!("s{w}")).object_id();
            let row = store.context(&object, &format!("c{w}")).await.unwrap().unwrap();
            for n in row.executions + 1.. {
                assert!(store.save_context(&object, &row.id, &state("x", n), None).await.unwrap());
                let line = format!("{w} {n}\n");
                let _ = std::io::stderr().lock().write_all(line.as_bytes());
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn a_saved_execution_survives_kill_9_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for w in 0..8 {
        let name = name("ada", &format!("s{w}"));
        store.create(&name, &settings(), &vars(&[]), 1, None).await.unwrap();
        let row = context(&format!("c{w}"), 1);
        store.create_context(&name.object_id(), 1, &row, 8).await.unwrap();
    }
    store.close().await;
    let mut told = HashMap::<u64, u64>::new();
    for round in 0..20 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_executes", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut count = 0;
        for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
            let (w, n) = line.split_once(' ').unwrap_or_else(|| panic!("the child says {line}"));
            told.insert(w.parse().unwrap(), n.parse().unwrap());
            count += 1;
            if count == 10 + round * 17 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let store = open(dir.path());
        for w in 0..8 {
            let object = name("ada", &format!("s{w}")).object_id();
            let row = store.context(&object, &format!("c{w}")).await.unwrap().unwrap();
            let last = told.get(&w).copied().unwrap_or(0);
            // The one in flight may be there too: whole, and no other.
            assert!((last..=last + 1).contains(&row.executions), "{last} {row:?}");
            if row.executions > 0 {
                let ContextState { cwd, snapshot, .. } = state("x", row.executions);
                assert_eq!((row.cwd, row.snapshot), (cwd, snapshot), "no mixture");
            }
        }
        store.close().await;
    }
    assert!(told.values().sum::<u64>() > 100);
}

#[tokio::test]
async fn on_a_full_disk_the_last_snapshot_stays() {
    let Some((dir, disk)) = Disk::new(16) else { return };
    let store = open(&dir.path().join("data"));
    let name = name("ada", "s");
    let object = name.object_id();
    store.create(&name, &settings(), &vars(&[]), 1, None).await.unwrap();
    store.create_context(&object, 1, &context("c", 1), 8).await.unwrap();
    store.create_context(&object, 1, &context("d", 2), 8).await.unwrap();
    disk.fill();
    let large = |n| {
        let manifest = format!("{:050000}", n);
        let snapshot = Some(SnapshotRow { manifest, ..snapshot("x", n) });
        ContextState { snapshot, ..state("x", n) }
    };
    let mut saved = 0;
    let full = loop {
        match store.save_context(&object, "c", &large(saved + 1), None).await {
            Ok(done) => assert!(done && saved < 10_000),
            Err(error) => break error,
        }
        saved += 1;
    };
    assert!(matches!(full, Error::Full), "{full:?}");
    let row = store.context(&object, "c").await.unwrap().unwrap();
    assert_eq!(row.executions, saved);
    if saved > 0 {
        assert_eq!(row.snapshot, large(saved).snapshot);
    }
    // That it was not saved is kept, and what frees space works.
    assert!(store.context_unsaved(&object, "c", 900, true).await.unwrap());
    assert!(store.context(&object, "c").await.unwrap().unwrap().stale);
    assert!(store.delete_context(&object, "d").await.unwrap());
    disk.free();
    assert!(store.save_context(&object, "c", &large(saved + 1), None).await.unwrap());
    let row = store.context(&object, "c").await.unwrap().unwrap();
    assert_eq!((row.executions, row.stale), (saved + 1, false));
    store.close().await;
}
