//! What the steps of a context cost, without a server: medians of many rounds, in milliseconds,
//! by the clock and of the processor.
//!
//! `cargo run --release -p interpreters --example cost -- python [CODE]`, with an engine that
//! is installed in the cache that `SANDKEEP_ENGINE_CACHE` names, or in the usual one.

use interpreters::engines::{self, Cache};
use interpreters::pages::PageMap;
use interpreters::wasi::{Places, Room, Sink};
use interpreters::{
    BaseMeta, Build, Execution, Instance, Packs, Runtime, drivers, load_module, new_engine,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::{Language, RichResult, Stream};

const ROUNDS: usize = 60;
const MEMORY: u64 = 512 << 20;

/// How many contexts are alive at the same time when their memory is looked at.
const ALIVE: usize = 200;

/// Memory of this process that it shares with nobody, bytes.
fn private() -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/smaps_rollup")?;
    let lines = text.lines().filter(|line| line.starts_with("Private_"));
    let kib = lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    Ok(kib.sum::<u64>() << 10)
}

struct Silent;

impl Sink for Silent {
    fn output(&mut self, _: Stream, _: Vec<u8>, _: i64) {}
    fn result(&mut self, _: RichResult) {}
}

/// When a step began: by the clock, and this thread's processor time.
struct Begun(Instant, Duration);

fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn now() -> Begun {
    Begun(Instant::now(), cpu())
}

/// Times by the name of the step.
#[derive(Default)]
struct Times(BTreeMap<&'static str, [Vec<Duration>; 2]>);

impl Times {
    fn add(&mut self, step: &'static str, since: Begun) {
        let [wall, processor] = self.0.entry(step).or_default();
        wall.push(since.0.elapsed());
        processor.push(cpu() - since.1);
    }
}

fn median(mut all: Vec<Duration>) -> f64 {
    all.sort();
    all[all.len() / 2].as_secs_f64() * 1000.0
}

fn job(code: &str) -> Execution {
    Execution {
        code: code.to_owned(),
        name: "<code>".to_owned(),
        env: BTreeMap::new(),
        cwd: "/workspace".to_owned(),
        stdin: Vec::new(),
        timeout: Duration::from_secs(60),
        memory_bytes: MEMORY,
        output_max: 1 << 20,
        room: Room::UNLIMITED,
        kept: true,
    }
}

async fn run(instance: &mut Instance, code: &str) -> Result<(), Box<dyn Error>> {
    let outcome = instance.execute(&job(code), Box::new(Silent)).await;
    match outcome.error {
        Some(error) => Err(format!("{}: {}", error.name, error.message).into()),
        None => Ok(()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().ok_or("which engine?")?;
    let dir = std::env::var_os("SANDKEEP_ENGINE_CACHE").map(PathBuf::from);
    let cache = Cache::new(dir.unwrap_or_else(engines::default_dir));
    let built = cache.builds()?.into_iter().rfind(|build| build.name == name);
    let built = built.ok_or_else(|| format!("{name} is not installed"))?;
    let (first, second) = match built.language {
        Language::Python => ("x = 1", "x + 1"),
        Language::Javascript => ("var x = 1", "x + 1"),
        Language::Ruby => ("x = 1", "x + 1"),
        Language::Perl => ("our $x = 1", "$x + 1"),
    };
    let first = args.next().unwrap_or_else(|| first.to_owned());

    let engine = new_engine()?;
    let begun = Instant::now();
    let module = load_module(&engine, &cache.path(&built.module))?;
    println!("{:<28} {:8.3}", "0 load the module", begun.elapsed().as_secs_f64() * 1000.0);
    let meta: BaseMeta = serde_json::from_slice(&fs::read(cache.path(&built.meta))?)?;
    let image = File::open(cache.path(&built.image))?;
    let driver = drivers::find(&name).ok_or("no driver")?;
    let build = Build::new(&module, image, meta, driver)?;
    let runtime = Runtime::new(&engine, PageMap::open())?;
    let (workspace, tmp) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let places = || -> Result<Places, Box<dyn Error>> {
        let mut read_only = Vec::new();
        for dir in &built.dirs {
            read_only.push((dir.guest.clone(), Places::open(&cache.path(&dir.host))?));
        }
        let open = Places::open;
        Ok(Places::new(open(workspace.path())?, open(tmp.path())?, read_only))
    };

    let mut times = Times::default();
    let mut sizes = (0, 0, 0, 0);
    for _ in 0..ROUNDS {
        let (places, places_again) = (places()?, places()?);
        let at = now();
        let (b, r) = (Arc::clone(&build), Arc::clone(&runtime));
        let mut instance = Instance::from_base(b, r, places, MEMORY).await?;
        times.add("1 from the base", at);
        let at = now();
        run(&mut instance, &first).await?;
        times.add("2 first execution", at);
        let at = now();
        let one = instance.snapshot()?;
        times.add("3 first snapshot", at);
        let at = now();
        run(&mut instance, second).await?;
        times.add("4 warm execution", at);
        let at = now();
        let two = instance.snapshot()?;
        times.add("5 next snapshot", at);
        let at = now();
        let path = workspace.path().join("pack");
        let file = File::create(&path)?;
        let bytes = one.pack.clone().unwrap_or_default();
        fs::write(&path, &bytes)?;
        file.sync_all()?;
        times.add("6 write and sync the first", at);
        let at = now();
        drop(instance);
        times.add("7 drop", at);
        let at = now();
        let (b, r) = (Arc::clone(&build), Arc::clone(&runtime));
        let files = [io::Cursor::new(bytes)].into_iter().take(one.snapshot.packs.len());
        let packs = Packs::open(&b, &one.snapshot, files.collect())?;
        let restored = Instance::restore(b, r, places_again, MEMORY, &one.snapshot, packs).await;
        let mut restored = restored?;
        times.add("8 restore the first", at);
        let at = now();
        run(&mut restored, second).await?;
        times.add("9 first execution after it", at);
        let pages =
            |new: &interpreters::NewSnapshot| new.snapshot.packs.last().map_or(0, |p| p.pages);
        sizes = (pages(&one), one.snapshot.disk_bytes(), pages(&two), two.snapshot.disk_bytes());
    }
    for (step, [wall, processor]) in times.0 {
        println!("{step:<28} {:8.3} {:8.3}", median(wall), median(processor));
    }
    let (pages, bytes, next_pages, next_bytes) = sizes;
    let before = private()?;
    let mut alive = Vec::new();
    for _ in 0..ALIVE {
        let (b, r) = (Arc::clone(&build), Arc::clone(&runtime));
        let mut instance = Instance::from_base(b, r, places()?, MEMORY).await?;
        run(&mut instance, &first).await?;
        instance.snapshot()?;
        alive.push(instance);
    }
    let each = (private()? - before) / ALIVE as u64;
    println!("{ALIVE} alive: {} KiB each", each >> 10);
    println!("first: {pages} pages, {bytes} bytes; next: {next_pages} pages, {next_bytes} bytes");
    Ok(())
}
