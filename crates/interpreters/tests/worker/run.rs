//! Executions, their events, and what is kept of them.

use crate::bed::{Bed, Context, Ran, until};
use interpreters::wasi::Room;
use interpreters::{Error, Event, Job, PackDir};
use std::time::{Duration, Instant};
use types::Stream;

#[tokio::test(flavor = "multi_thread")]
async fn a_context_goes_on_warm_and_cold() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    assert_eq!(context.run(&worker, "var x = 20; x + 1").await.value(), "21");
    assert_eq!(context.run(&worker, "x += 2; x").await.value(), "22");
    let first = context.snapshot.clone().expect("a snapshot");
    assert_eq!(first.seq, 2);
    // Cold: dropped, and in another process.
    worker.forget("one").await;
    assert_eq!(context.run(&worker, "x").await.value(), "22");
    drop(worker);
    let worker = bed.worker(1).await;
    assert_eq!(context.run(&worker, "x * 2").await.value(), "44");
    // An older state counts, whatever is warm.
    context.snapshot = Some(first);
    assert_eq!(context.run(&worker, "x += 1; x").await.value(), "23");
    context.snapshot = None;
    assert_eq!(context.run(&worker, "typeof x").await.value(), "'undefined'");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_in_order_and_environment_and_input_go_in() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    let code = "console.log('a'); console.error('b'); display({c: 1}); console.log('d'); 5";
    let ran = context.run(&worker, code).await;
    let told: Vec<String> = ran
        .events
        .iter()
        .map(|event| match event {
            Event::Output { stream: Stream::Stdout, bytes, .. } => {
                format!("out {}", String::from_utf8_lossy(bytes))
            }
            Event::Output { bytes, .. } => format!("err {}", String::from_utf8_lossy(bytes)),
            Event::Result(result) => format!("shown {}", result.text),
        })
        .collect();
    assert_eq!(told, ["out a\n", "err b\n", "shown { c: 1 }", "out d\n"]);
    assert_eq!(ran.value(), "5");
    assert_eq!(context.run(&worker, "process.env.GIVEN").await.value(), "'yes'");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_kept_leaves_nothing() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    for _ in 0..2 {
        let mut job = context.job("var seen = typeof y; var y = 1; seen");
        (job.keep, job.packs) = (false, PackDir::none());
        let ran = context.execute(&worker, job).await;
        assert_eq!(ran.value(), "'undefined'");
        assert!(context.snapshot.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_that_nobody_keeps_is_removed_and_the_state_with_it() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    context.run(&worker, "var x = 1").await.done();
    let files = || std::fs::read_dir(bed.path("contexts/one")).expect("a directory").count();
    assert_eq!(files(), 1);
    let (tell, _told) = tokio::sync::mpsc::unbounded_channel();
    let done = worker.execute(context.job("x = 2"), tell).await.expect("it ran");
    assert_eq!(files(), 2);
    // The commit failed.
    drop(done);
    assert_eq!(files(), 1);
    assert_eq!(context.run(&worker, "x").await.value(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_pack_is_named_and_harms_nobody_else() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let (mut one, mut other) = (bed.context("one"), bed.context("other"));
    one.run(&worker, "var x = 1").await.done();
    other.run(&worker, "var x = 2").await.done();
    worker.forget("one").await;
    let file = one.snapshot.as_ref().expect("a snapshot").packs[0].file.clone();
    let path = bed.path("contexts/one").join(&file);
    let whole = std::fs::read(&path).expect("read");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for bytes in [flipped, whole[..whole.len() - 1].to_vec(), Vec::new()] {
        std::fs::write(&path, bytes).expect("write");
        let ran = one.run(&worker, "x").await;
        assert!(matches!(&ran.ended, Err(Error::Pack { file: named, .. }) if *named == file));
    }
    std::fs::remove_file(&path).expect("remove");
    let ran = one.run(&worker, "x").await;
    assert!(matches!(&ran.ended, Err(Error::Pack { file: named, .. }) if *named == file));
    assert_eq!(other.run(&worker, "x").await.value(), "2");
    std::fs::write(&path, whole).expect("write");
    assert_eq!(one.run(&worker, "x").await.value(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn contexts_run_beside_each_other_and_one_in_turn() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let (mut one, mut other) = (bed.context("one"), bed.context("other"));
    one.run(&worker, "var x = 0").await.done();
    other.run(&worker, "var x = 0").await.done();
    // Each waits for a file that the other makes: one after the other would never end.
    let code = |mine: &str, theirs: &str| {
        format!(
            "fs.writeFileSync('/workspace/{mine}', ''); {{
               const begun = Date.now();
               while (!fs.existsSync('/workspace/{theirs}') && Date.now() - begun < 15000);
             }}
             fs.existsSync('/workspace/{theirs}')"
        )
    };
    let (a, b) = (code("a", "b"), code("b", "a"));
    let (ran, also) = tokio::join!(one.run(&worker, &a), other.run(&worker, &b));
    assert_eq!((ran.value(), also.value()), ("true".to_owned(), "true".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_runs_at_once_writes_no_more_than_there_is_room_for() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let (mut one, mut other) = (bed.context("one"), bed.context("other"));
    // Each begins when both run, and writes until it may not any more.
    let code = |mine: &str, theirs: &str| {
        format!(
            "fs.writeFileSync('/workspace/{mine}', '');
             while (!fs.existsSync('/workspace/{theirs}'));
             let error;
             while (!error) {{
               try {{ fs.appendFileSync('/workspace/{mine}', 'x'.repeat(777)) }}
               catch (e) {{ error = e.code }}
             }}
             error"
        )
    };
    let room = Room::of(1 << 20, 100);
    let job = |context: &Context, code: &str| Job { room, ..context.job(code) };
    let (a, b) = (job(&one, &code("a", "b")), job(&other, &code("b", "a")));
    let (a, b) = tokio::join!(one.execute(&worker, a), other.execute(&worker, b));
    assert_eq!((a.value(), b.value()), ("'ENOSPC'".to_owned(), "'ENOSPC'".to_owned()));
    let length = |name: &str| {
        std::fs::metadata(bed.path(&format!("workspace1/{name}"))).expect("it is there").len()
    };
    let (mine, theirs) = (length("a"), length("b"));
    assert_eq!(mine + theirs, room.bytes);
    let left = |ran: &Ran| (ran.done().room.bytes, ran.done().room.entries);
    assert_eq!(left(&a), (room.bytes - mine, 99));
    assert_eq!(left(&b), (room.bytes - theirs, 99));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_execution_stops_and_leaves_the_state_before() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    context.run(&worker, "var x = 1").await.done();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let job = context.job("x = 2; console.log('here'); while (true) {}");
    let running = tokio::spawn({
        let worker = worker.clone();
        async move { worker.execute(job, tell).await.map(drop) }
    });
    assert!(told.recv().await.is_some(), "it runs");
    running.abort();
    assert!(running.await.is_err());
    // The context's own lock is free only when its guest has stopped.
    let begun = Instant::now();
    assert_eq!(context.run(&worker, "x").await.value(), "1");
    assert!(begun.elapsed() < Duration::from_secs(15), "it did not wait for the time limit");
    // Nothing spins on.
    let pid = worker.pid().expect("a process");
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split(' ').collect();
        fields[12].parse::<u64>().expect("utime") + fields[13].parse::<u64>().expect("stime")
    };
    let before = ticks();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(ticks() - before <= 10, "the worker is at rest");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_goes_while_much_is_saved_leaves_the_state_before() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    // Noise, so that what is saved is as much.
    let much = "var n = 1; var much = new Uint32Array(4 << 20); \
         for (let i = 0; i < much.length; i++) much[i] = n = (Math.imul(n, 1664525) + 1013904223) | 0;";
    let long = |job: Job| Job { timeout: Duration::from_secs(60), ..job };
    let job = long(context.job(&format!("var x = 1; {much}")));
    context.execute(&worker, job).await.done();
    let packs = || std::fs::read_dir(bed.path("contexts/one")).expect("it is there").count();
    assert_eq!(packs(), 1);
    let (tell, _told) = tokio::sync::mpsc::unbounded_channel();
    let job = long(context.job("x = 2; for (let i = 0; i < much.length; i++) much[i] ^= n; x"));
    let running = tokio::spawn({
        let worker = worker.clone();
        async move { worker.execute(job, tell).await.map(drop) }
    });
    until("some of it is written", || packs() > 1 || running.is_finished()).await;
    running.abort();
    // Where it was done already nobody took what it left.
    let _ = running.await;
    let sum = "x + ' ' + much[0] + ' ' + much[much.length - 1]";
    let ran = context.run(&worker, sum).await;
    let noise = |count: u32| {
        let next = |n: u32, _| n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (0..count).fold(1, next)
    };
    assert_eq!(ran.value(), format!("'1 {} {}'", noise(1), noise(4 << 20)));
    assert!(packs() <= 2, "what was given up is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn time_limits_roll_back() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    context.run(&worker, "var x = 1").await.done();
    let mut job = context.job("x = 2; while (true) {}");
    job.timeout = Duration::from_millis(100);
    let ran = context.execute(&worker, job).await;
    assert_eq!(ran.value(), "ExecutionLimitError");
    assert!(ran.done().rolled_back && ran.done().saved.is_none());
    assert_eq!(context.run(&worker, "x").await.value(), "1");
}
