//! A cache with JavaScript in it, a workspace, and a context that is kept as a server keeps it.

use interpreters::engines::{self, Cache, EngineBuild};
use interpreters::wasi::Room;
use interpreters::{
    Done, Error, Event, Interpreters, Job, Options, PackDir, Snapshot, Worker, WorkerSpec,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// First host id of workers where the tests run as root.
const BASE: u32 = 1_610_612_736;
const MIB: u64 = 1 << 20;
/// Far more than anything takes; reached only where something hangs.
pub const LONG: Duration = Duration::from_secs(60);

fn cache_dir() -> PathBuf {
    let asked = std::env::var_os("SANDKEEP_ENGINE_CACHE").map(PathBuf::from);
    // Beside the directory for temporary files that every target directory has.
    asked.unwrap_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("engines"))
}

/// An engine of the cache, installed where it is not there.
pub fn build(name: &str) -> EngineBuild {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let built = engines::install(&Cache::new(cache_dir()), &[name], &mut |progress| {
        eprintln!("{}: {:?}", progress.engine, progress.step);
    });
    built.unwrap_or_else(|e| panic!("{name} cannot be installed: {e}")).remove(0)
}

fn javascript() -> &'static EngineBuild {
    static BUILD: OnceLock<EngineBuild> = OnceLock::new();
    BUILD.get_or_init(|| build("javascript"))
}

/// What runs code, and where.
pub struct Bed {
    pub interpreters: Interpreters,
    pub dir: TempDir,
    pub build: EngineBuild,
}

impl Bed {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Options)) -> Self {
        let build = tokio::task::spawn_blocking(javascript).await.expect("installed");
        Self::of(build.clone(), change).await
    }

    /// The same with another engine.
    pub async fn of(build: EngineBuild, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(cache_dir());
        options.program = env!("CARGO_BIN_EXE_interpreters-zygote").into();
        change(&mut options);
        let interpreters = Interpreters::start(options).await.expect("start");
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        Self { interpreters, dir, build }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn make(&self, name: &str) -> File {
        std::fs::create_dir_all(self.path(name)).expect("make a directory");
        File::open(self.path(name)).expect("open a directory")
    }

    /// A worker with the workspace of this number.
    pub async fn worker(&self, number: u32) -> Worker {
        self.worker_with(number, None).await
    }

    /// The same, with something that it borrows.
    pub async fn worker_with(
        &self,
        number: u32,
        lease: Option<Box<dyn std::any::Any + Send + Sync>>,
    ) -> Worker {
        let root = rustix::process::geteuid().is_root();
        let spec = WorkerSpec {
            workspace: self.make(&format!("workspace{number}")).into(),
            ids: root.then_some(BASE + number * 65_536),
            lease,
        };
        self.interpreters.worker(spec).await.expect("a worker")
    }

    /// A context, not begun yet.
    pub fn context(&self, key: &str) -> Context {
        let packs = PackDir::new(self.make(&format!("contexts/{key}")).into());
        let (key, cwd) = (key.to_owned(), "/workspace".to_owned());
        Context { key, build: self.build.clone(), cwd, snapshot: None, packs }
    }
}

/// A context, as a server keeps it.
pub struct Context {
    pub key: String,
    pub build: EngineBuild,
    pub cwd: String,
    pub snapshot: Option<Snapshot>,
    pub packs: PackDir,
}

/// What an execution said and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub events: Vec<Event>,
    pub ended: Result<Done, Error>,
}

impl Ran {
    pub fn done(&self) -> &Done {
        self.ended.as_ref().unwrap_or_else(|e| panic!("{e}: {:?}", self.events))
    }

    /// Text of the value; of a failure, its name.
    pub fn value(&self) -> String {
        let done = self.done();
        match (&done.error, &done.result) {
            (Some(error), _) => error.name.clone(),
            (None, result) => result.as_ref().map(|r| r.text.clone()).unwrap_or_default(),
        }
    }
}

impl Context {
    pub fn job(&self, code: &str) -> Job {
        Job {
            key: self.key.clone(),
            build: self.build.clone(),
            snapshot: self.snapshot.clone(),
            packs: self.packs.clone(),
            spare: None,
            code: code.to_owned(),
            env: BTreeMap::from([("GIVEN".to_owned(), "yes".to_owned())]),
            cwd: self.cwd.clone(),
            stdin: b"a line\n".to_vec(),
            timeout: Duration::from_secs(20),
            memory_bytes: 64 * MIB,
            output_max: 1 << 20,
            keep: true,
            room: Room::of(64 * MIB, 1000),
        }
    }

    pub async fn run(&mut self, worker: &Worker, code: &str) -> Ran {
        let job = self.job(code);
        self.execute(worker, job).await
    }

    /// The same with the memory that the largest engine has.
    pub async fn roomy(&mut self, worker: &Worker, code: &str) -> Ran {
        let mut job = self.job(code);
        job.memory_bytes = 256 * MIB;
        self.execute(worker, job).await
    }

    /// Runs it, and commits what it left.
    pub async fn execute(&mut self, worker: &Worker, job: Job) -> Ran {
        let (tell, mut told) = mpsc::unbounded_channel();
        let listen = tokio::spawn(async move {
            let mut events = Vec::new();
            while let Some(event) = told.recv().await {
                events.push(event);
            }
            events
        });
        let mut ended =
            tokio::time::timeout(LONG, worker.execute(job, tell)).await.expect("an end");
        if let Ok(done) = &mut ended
            && let Some(saved) = done.saved.take()
        {
            self.snapshot = Some(saved.snapshot);
            self.cwd.clone_from(&done.cwd);
            if let Some(pack) = saved.pack {
                pack.keep();
            }
        }
        Ran { events: listen.await.expect("events"), ended }
    }
}

/// Waits for what must come to be.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process runs, also as a zombie's opposite.
pub fn alive(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.contains("State:") && !status.contains("State:\tZ")
}
