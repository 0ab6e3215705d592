//! What saving and restoring of much memory takes beside that memory: hardly anything, in the
//! worker and in the server, which has many of them.

use super::rig::*;
use e2e::Server;
use serde_json::json;
use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// What the code keeps, and nobody can make smaller.
const MUCH: u64 = 100 * MIB;
/// What may come beside it in a worker: less than half of a copy.
const BESIDE: u64 = 40 * MIB;
/// What the server may need for it.
const SERVER: u64 = 32 * MIB;
/// What makes the worker's usual memory be there.
const LITTLE: &str = "import os, zlib\nzlib.crc32(os.urandom(1000)) and None";

/// A line of `/proc/PID/status`, where the process is there.
fn status(pid: i32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// What a process has to itself, bytes. (The most that it ever had would count files of engines
/// that it maps.)
fn own(pid: i32) -> u64 {
    status(pid, "RssAnon:").unwrap_or(0) * 1024
}

/// The process of what the server started that has most to itself: the worker.
fn worker(server: i32) -> i32 {
    let numbers = fs::read_dir("/proc").expect("it is there").flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parents: HashMap<i32, i32> =
        pids.filter_map(|pid| Some((pid, status(pid, "PPid:")? as i32))).collect();
    let above = |pid: &i32| parents.get(pid).copied();
    let ours = parents
        .keys()
        .copied()
        .filter(|pid| std::iter::successors(above(pid), above).any(|parent| parent == server));
    ours.max_by_key(|pid| own(*pid)).expect("a worker runs")
}

/// How much more memory server and worker had meanwhile than before, bytes.
async fn grown(server: &Server, work: impl Future<Output = ()>) -> (u64, u64) {
    let pids = [server.pid(), worker(server.pid())];
    let before = pids.map(own);
    let over = Arc::new(AtomicBool::new(false));
    let told = over.clone();
    let look = std::thread::spawn(move || {
        let mut most = before;
        while !told.load(Ordering::Relaxed) {
            most = [most[0].max(own(pids[0])), most[1].max(own(pids[1]))];
            std::thread::sleep(Duration::from_millis(1));
        }
        most
    });
    work.await;
    over.store(true, Ordering::Relaxed);
    let most = look.join().expect("it looked");
    (most[0] - before[0], most[1] - before[1])
}

#[tokio::test(flavor = "multi_thread")]
async fn much_memory_is_saved_and_restored_without_a_copy_of_it() {
    let mut server = server().await;
    let much = context(&server, "a", "PYTHON").await;
    run(&server, "a", &much, LITTLE).await;
    let mut sum = String::new();
    let took = grown(&server, async {
        let code = format!("much = os.urandom({MUCH})\nzlib.crc32(much)");
        sum = text(&run(&server, "a", &much, &code).await).to_owned();
    });
    let (ours, workers) = took.await;
    assert!(workers >= MUCH, "the worker is not the one that is looked at");
    assert!(workers <= MUCH + BESIDE, "the worker took {} MiB", workers / MIB);
    assert!(ours <= SERVER, "the server took {} MiB", ours / MIB);
    let snapshot = &told(&server, "a", &much).await["snapshot"];
    assert!(snapshot["diskBytes"].as_u64().expect("a number") >= MUCH, "{snapshot}");
    run(&server, "a", &much, "step = 1").await;

    server.kill();
    server.restart().await;
    let little = context(&server, "a", "PYTHON").await;
    run(&server, "a", &little, LITTLE).await;
    let took = grown(&server, async {
        let again = run(&server, "a", &much, "zlib.crc32(much) if step == 1 else None").await;
        assert_eq!(text(&again), sum);
    });
    let (ours, workers) = took.await;
    assert!(workers >= MUCH, "the worker is not the one that is looked at");
    assert!(workers <= MUCH + BESIDE, "the worker took {} MiB", workers / MIB);
    assert!(ours <= SERVER, "the server took {} MiB", ours / MIB);

    // What is checked before somebody stands on it is not read whole either.
    let took = grown(&server, async {
        let path = format!("/v1/sandboxes/a/contexts/{much}/fork");
        let fork = server.post(&path, json!({})).await.expect(201);
        let fork = fork["id"].as_str().expect("an id").to_owned();
        run(&server, "a", &fork, "del much").await;
    });
    let (ours, _) = took.await;
    assert!(ours <= SERVER, "the server took {} MiB", ours / MIB);
    assert_eq!(text(&run(&server, "a", &much, "zlib.crc32(much)").await), sum);
}

/// The names of a server's threads.
fn threads(pid: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

/// It holds all files of the engines against their hashes, the largest of which are as large as a
/// standard library.
#[tokio::test(flavor = "multi_thread")]
async fn engines_are_looked_through_piece_by_piece() {
    let mut server = server().await;
    // It begins a second after the start; on a slow machine it may be over when the start is.
    for _ in 0..20 {
        if threads(server.pid()).iter().any(|name| name == "engines") {
            break;
        }
        server.terminate();
        server.restart().await;
    }
    let looks = || threads(server.pid()).iter().any(|name| name == "engines");
    assert!(looks(), "it is always over");
    let took = grown(&server, async {
        e2e::eventually("it ends", 2 * SOON, || async { (!looks()).then_some(()) }).await;
    });
    let (ours, _) = took.await;
    assert!(ours <= SERVER, "the server took {} MiB", ours / MIB);
}
