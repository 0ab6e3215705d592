//! What the store costs: `cargo run --release -p store --example bench [DIR]`.
//!
//! One writer against 64 at once, a page of 100 and an opening at growing numbers of sandboxes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::{Options, Store};
use types::{ListFilter, Owner, SandboxName, Settings, TimeDefaults};

const WRITERS: usize = 64;
const SPAN: Duration = Duration::from_secs(3);

fn name(owner: &str, i: usize) -> SandboxName {
    let id = format!("sandbox-{i:06}");
    SandboxName::new(owner.parse().expect("an owner"), id.parse().expect("an id"))
}

fn open(dir: &Path) -> Store {
    Store::open(Options { dir: dir.into() }).expect("the store opens")
}

/// Commits a second of `writers` that each wait for their own.
async fn rate(store: &Store, writers: usize) -> f64 {
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for w in 0..writers {
        let store = store.clone();
        tasks.spawn(async move {
            let object = name("ada", w).object_id();
            let mut count = 0u32;
            while started.elapsed() < SPAN {
                store.set_alarm(&object, Some(i64::from(count))).await.expect("is written");
                count += 1;
            }
            count
        });
    }
    let count: u32 = tasks.join_all().await.into_iter().sum();
    f64::from(count) / started.elapsed().as_secs_f64()
}

async fn fill(store: &Store, owner: &str, from: usize, to: usize) {
    let settings = Settings::defaults(TimeDefaults::default());
    let mut tasks = tokio::task::JoinSet::new();
    for w in 0..256 {
        let (store, settings, owner) = (store.clone(), settings.clone(), owner.to_owned());
        tasks.spawn(async move {
            for i in (from + w..to).step_by(256) {
                let at = Some(i as i64);
                let name = name(&owner, i);
                store.create(&name, &settings, &BTreeMap::new(), i as i64, at).await.expect("made");
            }
        });
    }
    tasks.join_all().await;
}

/// Median time of a page of 100 from the middle, µs.
async fn page(store: &Store, owner: &Owner, count: usize) -> f64 {
    let filter = ListFilter::default();
    let half = u32::try_from(count / 2).expect("fits").min(10_000);
    let first = store.list(owner, &filter, half, None).await.expect("a page");
    let cursor = first.next_cursor;
    let mut times = Vec::new();
    for _ in 0..300 {
        let started = Instant::now();
        let page = store.list(owner, &filter, 100, cursor.as_deref()).await.expect("a page");
        times.push(started.elapsed());
        assert!(page.sandboxes.len() >= 50);
    }
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn rss_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
    let kib = line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let base = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = base.join(format!("store-bench-{}", std::process::id()));
    let store = open(&dir);
    fill(&store, "ada", 0, 200).await;
    let (one, many) = (rate(&store, 1).await, rate(&store, WRITERS).await);
    println!("1 writer          {one:9.0} commits/s");
    println!("{WRITERS} writers        {many:9.0} commits/s   {:.1} x", many / one);
    let mut before = 0;
    for count in [100, 10_000, 100_000] {
        // Each size is an owner of its own; the file holds all of them.
        let owner = format!("owner{count}");
        let started = Instant::now();
        fill(&store, &owner, 0, count).await;
        let made = started.elapsed().as_secs_f64();
        before += count;
        let owner: Owner = owner.parse().expect("an owner");
        let micros = page(&store, &owner, count).await;
        let started = Instant::now();
        let all = store.directory(&owner).await.expect("a directory").len();
        let directory = started.elapsed().as_secs_f64() * 1e3;
        println!(
            "N={count:<7} page of 100 {micros:7.0} us   directory of {all:6} {directory:7.1} ms   made {:6.0}/s   rss {:.0} MiB",
            count as f64 / made,
            rss_mib()
        );
    }
    store.close().await;
    let started = Instant::now();
    let store = open(&dir);
    let opened = started.elapsed().as_secs_f64() * 1e3;
    println!("open with {before} sandboxes {opened:.0} ms   rss {:.0} MiB", rss_mib());
    store.close().await;
    let _ = std::fs::remove_dir_all(&dir);
}
