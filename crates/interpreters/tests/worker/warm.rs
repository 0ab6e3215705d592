//! Memory that warm contexts may take: those used least lately go, and go on from the disk.

use crate::bed::{Bed, Context, alive, build, until};
use crate::carried;
use interpreters::Worker;

/// What a context of [`large`] holds; it counts for about twice as much.
const HELD: u64 = 8 << 20;

/// A context with pages of its own.
async fn large(bed: &Bed, worker: &Worker, key: &str) -> Context {
    let mut context = bed.context(key);
    let code = format!("var x = 0; var held = new Uint8Array({HELD}).fill(7)");
    context.run(worker, &code).await.done();
    context
}

/// Runs something, and tells whether the context had to come from the disk.
async fn was_cold(context: &mut Context, worker: &Worker) -> bool {
    let before = context.run(worker, "x").await;
    let ran = context.run(worker, "x += 1").await;
    assert!(ran.done().restored_us.is_none(), "it was used a moment ago");
    let n: u64 = before.value().parse().expect("a number");
    assert_eq!(ran.value(), (n + 1).to_string());
    before.done().restored_us.is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_context_used_least_lately_makes_room() {
    let bed = Bed::with(|options| options.warm_bytes = 5 * HELD).await;
    let worker = bed.worker(1).await;
    let mut a = large(&bed, &worker, "a").await;
    let mut b = large(&bed, &worker, "b").await;
    assert!(!was_cold(&mut a, &worker).await, "both fit");
    let mut c = large(&bed, &worker, "c").await;
    assert!(!was_cold(&mut a, &worker).await, "used after b");
    assert!(was_cold(&mut b, &worker).await, "it made room for c");
    assert!(was_cold(&mut c, &worker).await, "it made room for b");
    assert!(was_cold(&mut a, &worker).await, "it made room for c");
    assert_eq!(a.run(&worker, "held[held.length - 1]").await.value(), "7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_runs_makes_no_room() {
    let bed = Bed::with(|options| options.warm_bytes = HELD / 2).await;
    let worker = bed.worker(1).await;
    let mut a = large(&bed, &worker, "a").await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let code = "console.log('here'); while (!fs.existsSync('/workspace/go')); x += held[5]";
    let running = worker.execute(a.job(code), tell);
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => panic!("{ended:?}"),
        told = told.recv() => assert!(told.is_some(), "it runs"),
    }
    let mut b = large(&bed, &worker, "b").await;
    std::fs::write(bed.path("workspace1/go"), "").expect("written");
    let mut done = running.await.expect("it ran");
    assert_eq!(done.result.as_ref().expect("a value").text, "7");
    let saved = done.saved.take().expect("it changed");
    a.snapshot = Some(saved.snapshot);
    saved.pack.expect("a pack").keep();
    let ran = a.run(&worker, "x").await;
    assert_eq!((ran.value().as_str(), ran.done().restored_us), ("7", None));
    assert!(b.run(&worker, "x").await.done().restored_us.is_some(), "it made room for a");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_process_that_keeps_too_much_makes_room_for_another() {
    let bed = Bed::with(|options| options.warm_bytes = HELD / 2).await;
    let one = bed.worker(1).await;
    // Alone it is kept, however large.
    let mut a = large(&bed, &one, "a").await;
    assert!(!was_cold(&mut a, &one).await);
    let pid = one.pid().expect("a process");
    let two = bed.worker(2).await;
    until("the first is ended", || !alive(pid)).await;
    assert_eq!(bed.context("b").run(&two, "6 * 7").await.value(), "42");
    assert!(was_cold(&mut a, &one).await);
    assert_ne!(one.pid(), Some(pid));
}

/// There is room for one context alone: each execution of another makes it anew.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_all_that_code_made_goes_on_after_it_made_room() {
    let bed = Bed::with(|options| options.warm_bytes = 1).await;
    let worker = bed.worker(1).await;
    let mut contexts = Vec::new();
    for lang in carried::ALL {
        let mut context = bed.context(lang.language);
        let engine = lang.language;
        context.build =
            tokio::task::spawn_blocking(move || build(engine)).await.expect("installed");
        contexts.push((lang, context));
    }
    for (lang, context) in &mut contexts {
        for code in lang.set {
            let ran = context.roomy(&worker, code).await;
            assert_eq!(ran.done().error, None, "{}: {code}", lang.language);
        }
    }
    for round in 0..3 {
        for (lang, context) in &mut contexts {
            for (n, (code, told)) in lang.check.iter().enumerate() {
                let ran = context.roomy(&worker, code).await;
                assert_eq!(ran.value(), told[round], "{} round {round}: {code}", lang.language);
                assert_eq!(ran.done().restored_us.is_some(), n == 0, "{}: {code}", lang.language);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_arrays_and_figures_go_on_after_they_made_room() {
    let build = tokio::task::spawn_blocking(|| build("python-data")).await.expect("installed");
    let bed = Bed::of(build, |options| options.warm_bytes = 1).await;
    let worker = bed.worker(1).await;
    let (mut one, mut other) = (bed.context("one"), bed.context("other"));
    let code = "import numpy as np, matplotlib.pyplot as plt; a = np.arange(10_000.0)\n\
                fig, ax = plt.subplots(figsize=(2, 1)); plt.close(fig); ax.plot([1, 2]);";
    for context in [&mut one, &mut other] {
        assert_eq!(context.roomy(&worker, code).await.done().error, None);
    }
    other.roomy(&worker, "a[:] = 0; ax.clear()").await.done();
    for lines in 1..4 {
        let ran = one.roomy(&worker, "float(a.sum()), len(ax.lines)").await;
        assert_eq!(ran.value(), format!("({:?}, {lines})", 49_995_000.0 + f64::from(lines - 1)));
        assert!(ran.done().restored_us.is_some(), "it made room for the other");
        let ran = one.roomy(&worker, "a[0] += 1; ax.plot([2, 1]); fig").await;
        let result = ran.done().result.as_ref().expect("a figure");
        assert!(result.mime["image/png"].starts_with("iVBORw0KGgo"));
        assert_eq!(other.roomy(&worker, "a.any(), len(ax.lines)").await.value(), "(np.False_, 0)");
    }
}
