//! What many workers cost.

use crate::bed::Bed;
use std::time::{Duration, Instant};

const WORKERS: u32 = 125;
const MIB: u64 = 1 << 20;

/// Memory that a process shares with nobody, and its fair share of all, bytes.
fn memory(pid: i32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("smaps");
    let of = |names: &[&str]| {
        let lines = text.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
        let kib = lines.map(|line| line.split_whitespace().nth(1).expect("a number"));
        kib.map(|kib| kib.parse::<u64>().expect("a number") << 10).sum::<u64>()
    };
    (of(&["Private_Clean:", "Private_Dirty:"]), of(&["Pss:"]))
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_many_workers_are_small() {
    let bed = Bed::new().await;
    let (mut starts, mut firsts, mut workers) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..WORKERS {
        let begun = Instant::now();
        let worker = bed.worker(number % 30).await;
        starts.push(begun.elapsed());
        workers.push(worker);
    }
    assert_eq!(bed.interpreters.processes(), WORKERS as usize);
    let all = |workers: &[interpreters::Worker]| {
        let each = workers.iter().map(|worker| memory(worker.pid().expect("a process")));
        each.fold((0, 0), |(private, pss), (p, q)| (private + p, pss + q))
    };
    let idle = all(&workers);
    for (number, worker) in workers.iter().enumerate() {
        let mut context = bed.context(&number.to_string());
        let begun = Instant::now();
        assert_eq!(context.run(worker, "6 * 7").await.value(), "42");
        firsts.push(begun.elapsed());
    }
    let used = all(&workers);
    let each = |sum: u64| sum / u64::from(WORKERS) / 1024;
    println!(
        "worker: ready after {:?}, first execution after {:?}; private {} KiB idle, {} KiB with a \
         context; PSS {} and {} KiB",
        median(starts),
        median(firsts),
        each(idle.0),
        each(used.0),
        each(idle.1),
        each(used.1),
    );
    assert!(used.0 < u64::from(WORKERS) * 12 * MIB, "{} MiB", used.0 / MIB);
}
