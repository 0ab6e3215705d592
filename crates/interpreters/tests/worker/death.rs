//! Deaths: of a worker, of the zygote, of the server.

use crate::bed::{Bed, alive, until};
use interpreters::Error;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).expect("a pid"), Signal::KILL).expect("kill");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_costs_what_was_in_flight() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    context.run(&worker, "var x = 1").await.done();
    for _ in 0..3 {
        let pid = worker.pid().expect("a process");
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let job = context.job("x = 2; console.log('here'); while (true) {}");
        let running = tokio::spawn({
            let worker = worker.clone();
            async move { worker.execute(job, tell).await.map(drop) }
        });
        assert!(told.recv().await.is_some(), "it runs");
        kill(pid);
        let ended = running.await.expect("an end");
        assert!(matches!(ended, Err(Error::WorkerDied)), "{ended:?}");
        worker.dead().await;
        assert_eq!(context.run(&worker, "x").await.value(), "1");
        assert_ne!(worker.pid(), Some(pid));
    }
}

/// With one thread, nothing of the service runs between the kill and the next execution.
#[tokio::test]
async fn what_is_asked_right_after_a_kill_runs_elsewhere() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    context.run(&worker, "var x = 1").await.done();
    for _ in 0..3 {
        let pid = worker.pid().expect("a process");
        kill(pid);
        let began = std::time::Instant::now();
        // Its first thread may end before the others.
        while std::path::Path::new(&format!("/proc/{pid}")).exists() {
            assert!(began.elapsed() < crate::bed::LONG, "{pid} does not end");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(context.run(&worker, "x").await.value(), "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_end_with_their_handle_and_when_there_are_too_many() {
    let bed = Bed::with(|options| options.workers = 2).await;
    let (one, two) = (bed.worker(1).await, bed.worker(2).await);
    let (first, second) = (one.pid().expect("a process"), two.pid().expect("a process"));
    let three = bed.worker(3).await;
    // The one that was used least lately; its next execution starts another.
    until("the first is ended", || !alive(first)).await;
    assert!(alive(second) && one.is_dead() && !three.is_dead());
    let mut context = bed.context("one");
    assert_eq!(context.run(&one, "6 * 7").await.value(), "42");
    until("the second is ended", || !alive(second)).await;
    let pid = one.pid().expect("a process");
    drop(one);
    until("it ended with its handle", || !alive(pid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zygote_that_died_is_started_again() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    context.run(&worker, "var x = 5").await.done();
    let pid = worker.pid().expect("a process");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let after = stat.rsplit(')').next().expect("fields");
    let zygote: i32 = after.split(' ').nth(2).expect("ppid").parse().expect("a number");
    kill(zygote);
    until("its workers ended with it", || !alive(pid)).await;
    until("no zombie is left of it", || !Path::new(&format!("/proc/{zygote}")).exists()).await;
    worker.dead().await;
    assert_eq!(context.run(&worker, "x").await.value(), "5");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_ends_with_the_server() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    let job = context.job("console.log('here'); while (true) {}");
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let running = tokio::spawn({
        let worker = worker.clone();
        async move { worker.execute(job, tell).await.map(drop) }
    });
    assert!(told.recv().await.is_some(), "it runs");
    let pid = worker.pid().expect("a process");
    drop(context.run(&bed.worker(2).await, "1").await);
    // As the end of a server closes all of its descriptors.
    running.abort();
    drop(worker);
    drop(bed);
    until("the worker is gone", || !alive(pid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_borrows_goes_back_when_the_process_has_ended() {
    let bed = Bed::new().await;
    let held = std::sync::Arc::new(());
    let worker = bed.worker_with(1, Some(Box::new(held.clone()))).await;
    let other = worker.clone();
    let pid = worker.pid().expect("a process");
    drop(worker);
    assert!(alive(pid) && std::sync::Arc::strong_count(&held) == 2);
    drop(other);
    until("it goes back", || std::sync::Arc::strong_count(&held) == 1).await;
    assert!(!alive(pid), "and not before the end");
}
