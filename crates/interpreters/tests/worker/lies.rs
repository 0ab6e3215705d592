//! Workers that lie, in place of those whose code was broken out of: whatever one of them sends costs
//! its own executions, and nothing of others.

use crate::bed::{Bed, Context};
use interpreters::{Error, Worker};

/// What is no word of a worker's, or more of them than it may say: its process is ended.
const DEADLY: [&str; 12] = [
    "garbage",
    "no json",
    "no message",
    "long",
    "long body",
    "half",
    "gone",
    "ready",
    "descriptor",
    "output",
    "large json",
    "many",
];

/// What is not believed.
const REFUSED: [&str; 9] = [
    "need",
    "no part",
    "parts",
    "foreign pack",
    "packs",
    "same pack",
    "no pack",
    "number",
    "build",
];

async fn liars() -> Bed {
    Bed::with(|options| options.program = env!("CARGO_BIN_EXE_interpreters-liar").into()).await
}

/// An execution that tells the truth: the number of the state before it.
async fn honest(context: &mut Context, worker: &Worker, number: u64, after: &str) {
    let ran = context.run(worker, "honest").await;
    assert_eq!(ran.value(), number.to_string(), "after {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lies_costs_its_own_executions_alone() {
    let bed = liars().await;
    let (worker, other) = (bed.worker(1).await, bed.worker(2).await);
    let (mut lying, mut fine) = (bed.context("lying"), bed.context("fine"));
    let pid = other.pid().expect("a process");
    honest(&mut lying, &worker, 0, "nothing").await;
    for (n, lie) in (0..).zip(DEADLY.into_iter().chain(REFUSED)) {
        let before = worker.pid();
        let ran = lying.run(&worker, lie).await;
        match &ran.ended {
            Err(Error::WorkerDied) if DEADLY.contains(&lie) => {}
            Err(Error::Failed(_)) if REFUSED.contains(&lie) => {}
            ended => panic!("{lie}: {ended:?}"),
        }
        honest(&mut lying, &worker, n + 1, lie).await;
        assert_eq!(before == worker.pid(), REFUSED.contains(&lie), "{lie}");
        honest(&mut fine, &other, n, lie).await;
        assert_eq!(other.pid(), Some(pid), "{lie}");
    }
    // Nothing is left of what was not believed.
    for context in [&lying, &fine] {
        let files = std::fs::read_dir(bed.path("contexts").join(&context.key)).expect("readable");
        let packs = &context.snapshot.as_ref().expect("saved").packs;
        assert_eq!(files.count(), packs.len(), "{}", context.key);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_for_others_and_large_numbers_change_nothing() {
    let bed = liars().await;
    let (worker, other) = (bed.worker(1).await, bed.worker(2).await);
    let (mut lying, mut fine) = (bed.context("lying"), bed.context("fine"));
    for (n, lie) in (0..).zip(["other", "times", "times", "times", "other"]) {
        let (one, two) = tokio::join!(lying.run(&worker, lie), fine.run(&other, lie));
        for ran in [one, two] {
            assert_eq!(ran.value(), n.to_string(), "{lie}");
            let day = 24 * 60 * 60 * 1000 + 60_000;
            assert!(ran.done().snapshot_ms < day, "{lie}: {ran:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_does_not_grow_without_end() {
    let bed = liars().await;
    let worker = bed.worker(1).await;
    let mut lying = bed.context("lying");
    let mut packs = 0;
    // One more pack each time.
    while lying.run(&worker, "honest").await.ended.is_ok() {
        packs += 1;
        assert!(packs < 1000, "each needs a descriptor of the server's");
    }
    assert_eq!(lying.snapshot.expect("saved").packs.len(), packs);
}

/// What a lying worker has saved is no memory: an honest one says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_pack_whose_hash_does_not_fit_is_never_run() {
    let (bed, home) = (Bed::new().await, liars().await);
    let worker = bed.worker(1).await;
    let mut fine = bed.context("fine");
    fine.run(&worker, "var x = 41").await.done();
    let pid = worker.pid();
    let packs = std::fs::read_dir(bed.path("contexts/fine")).expect("readable");
    let pack = packs.flatten().next().expect("a pack").path();
    let mut lying = home.context("lying");
    let mut job = lying.job("honest");
    job.stdin = std::fs::read(pack).expect("readable");
    lying.execute(&home.worker(1).await, job).await.done();
    let ran = lying.run(&worker, "1").await;
    assert!(
        matches!(&ran.ended, Err(Error::Pack { what, .. }) if what.contains("do not have the hash")),
        "{ran:?}"
    );
    assert_eq!(fine.run(&worker, "x + 1").await.value(), "42");
    assert_eq!(worker.pid(), pid);
}
