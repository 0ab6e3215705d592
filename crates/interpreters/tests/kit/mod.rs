//! Contexts of one engine, as a worker would keep them, but in the process of the test.
//!
//! The engine comes from the cache that `SANDKEEP_ENGINE_CACHE` names, else from `engines` in the target directory; it
//! is installed if it is not there.

#![allow(dead_code, reason = "not every suite needs all of it")]

use interpreters::engines::{self, Cache};
use interpreters::pages::PageMap;
use interpreters::wasi::{Places, Room, Sink};
use interpreters::{
    BaseMeta, Build, Execution, Instance, Outcome, Packs, Runtime, Snapshot, drivers, load_module,
    new_engine,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use types::{CodeError, RichResult, Stream};

/// An engine, ready for contexts.
pub struct Engine {
    build: Arc<Build>,
    runtime: Arc<Runtime>,
    dirs: Vec<(String, PathBuf)>,
    memory_bytes: u64,
}

impl Engine {
    /// Loads it from the cache. It is installed first where it has to be.
    pub fn load(name: &str, memory_bytes: u64) -> Arc<Self> {
        let dir = std::env::var_os("SANDKEEP_ENGINE_CACHE").map(PathBuf::from);
        // Beside the directory for temporary files that every target directory has.
        let beside = || Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("engines");
        let cache = Cache::new(dir.unwrap_or_else(beside));
        let built = engines::install(&cache, &[name], &mut |progress| {
            eprintln!("{}: {:?}", progress.engine, progress.step);
        });
        let built = built.unwrap_or_else(|e| panic!("{name} cannot be installed: {e}")).remove(0);
        let engine = new_engine().expect("the machine runs guests");
        let module = load_module(&engine, &cache.path(&built.module)).expect("a module");
        let image = File::open(cache.path(&built.image)).expect("the base image opens");
        let meta: BaseMeta =
            serde_json::from_slice(&fs::read(cache.path(&built.meta)).expect("a file"))
                .expect("a meta");
        let driver = drivers::find(name).expect("a driver");
        let build = Build::new(&module, image, meta, driver).expect("the parts fit");
        let runtime = Runtime::new(&engine, PageMap::open()).expect("a thread");
        let dirs = built.dirs.iter().map(|dir| (dir.guest.clone(), cache.path(&dir.host)));
        Arc::new(Engine { build, runtime, dirs: dirs.collect(), memory_bytes })
    }
}

/// One context: an instance while it is warm, and the last snapshot.
pub struct Context {
    engine: Arc<Engine>,
    instance: Option<Instance>,
    snapshot: Option<Snapshot>,
    packs: BTreeMap<String, Vec<u8>>,
    workspace: Arc<TempDir>,
    tmp: Arc<TempDir>,
    /// As the next execution finds it.
    pub cwd: String,
    /// The environment of every execution.
    pub env: BTreeMap<String, String>,
    /// What the next executions read.
    pub stdin: Vec<u8>,
    /// Their time limit.
    pub timeout: Duration,
    /// Output that is kept of one.
    pub output_max: usize,
}

/// What an execution did.
#[derive(Debug)]
pub struct Ran {
    /// What was run.
    pub code: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What it wrote on standard output.
    pub stdout: String,
    /// What it wrote on standard error.
    pub stderr: String,
    /// What it displayed.
    pub displayed: Vec<RichResult>,
}

impl Ran {
    /// The text of the result; fails where there is an error or no result.
    pub fn text(&self) -> &str {
        assert_eq!(self.outcome.error, None, "{self:?}");
        &self.outcome.result.as_ref().unwrap_or_else(|| panic!("no result: {self:?}")).text
    }

    /// The JSON of the result, if it has one.
    pub fn json(&self) -> Option<Value> {
        self.text();
        self.outcome.result.as_ref().and_then(|result| result.json.clone())
    }

    /// The error; fails where there is none.
    pub fn error(&self) -> &CodeError {
        self.outcome.error.as_ref().unwrap_or_else(|| panic!("no error: {self:?}"))
    }

    /// Whether the context went back to its last snapshot.
    pub fn rolled_back(&self) -> bool {
        self.outcome.stopped.is_some()
    }
}

/// Takes what an execution writes.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<All>>);

#[derive(Default)]
struct All {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    displayed: Vec<RichResult>,
}

impl Sink for Taken {
    fn output(&mut self, stream: Stream, bytes: Vec<u8>, _at: i64) {
        let mut taken = self.0.lock().unwrap();
        match stream {
            Stream::Stdout => taken.stdout.extend(bytes),
            Stream::Stderr => taken.stderr.extend(bytes),
        }
    }

    fn result(&mut self, result: RichResult) {
        self.0.lock().unwrap().displayed.push(result);
    }
}

impl Context {
    /// A fresh one with a workspace of its own.
    pub fn new(engine: &Arc<Engine>) -> Self {
        let dir = || Arc::new(TempDir::new().expect("a directory"));
        Context {
            engine: engine.clone(),
            instance: None,
            snapshot: None,
            packs: BTreeMap::new(),
            workspace: dir(),
            tmp: dir(),
            cwd: "/workspace".into(),
            env: BTreeMap::new(),
            stdin: Vec::new(),
            timeout: Duration::from_secs(60),
            output_max: 1 << 20,
        }
    }

    /// Where its workspace lies on the host.
    pub fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    /// Another context that goes on from the same snapshot, with the same workspace.
    pub fn fork(&self) -> Self {
        Context {
            engine: self.engine.clone(),
            instance: None,
            snapshot: self.snapshot.clone(),
            packs: self.packs.clone(),
            workspace: self.workspace.clone(),
            tmp: self.tmp.clone(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            stdin: Vec::new(),
            timeout: self.timeout,
            output_max: self.output_max,
        }
    }

    /// Drops the instance: the next execution goes on from the last snapshot in a new one.
    pub fn evict(&mut self) {
        self.instance = None;
    }

    /// Bytes of all packs of the last snapshot.
    pub fn stored(&self) -> usize {
        self.packs.values().map(Vec::len).sum()
    }

    /// Runs code, and takes a snapshot unless the instance was stopped.
    pub async fn run(&mut self, code: &str) -> Ran {
        let mut instance = match self.instance.take() {
            Some(instance) => instance,
            None => self.start().await,
        };
        let taken = Taken::default();
        let job = Execution {
            code: code.to_owned(),
            name: "<code>".into(),
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            stdin: self.stdin.clone(),
            timeout: self.timeout,
            memory_bytes: self.engine.memory_bytes,
            output_max: self.output_max,
            room: Room::UNLIMITED,
            kept: true,
        };
        let outcome = instance.execute(&job, Box::new(taken.clone())).await;
        if outcome.stopped.is_none() {
            self.save(&mut instance);
            self.cwd.clone_from(&outcome.cwd);
            self.instance = Some(instance);
        }
        let All { stdout, stderr, displayed } = std::mem::take(&mut *taken.0.lock().unwrap());
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Ran {
            code: code.to_owned(),
            outcome,
            stdout: text(stdout),
            stderr: text(stderr),
            displayed,
        }
    }

    /// As [`Context::run`], in a new instance.
    pub async fn again(&mut self, code: &str) -> Ran {
        self.evict();
        self.run(code).await
    }

    fn save(&mut self, instance: &mut Instance) {
        let new = instance.snapshot().expect("a snapshot");
        if let (Some(bytes), Some(pack)) = (new.pack, new.snapshot.packs.last()) {
            self.packs.insert(pack.file.clone(), bytes);
        }
        self.packs.retain(|file, _| new.snapshot.packs.iter().any(|pack| pack.file == *file));
        self.snapshot = Some(new.snapshot);
    }

    async fn start(&self) -> Instance {
        let Engine { build, runtime, dirs, memory_bytes } = &*self.engine;
        let open = |path: &Path| Places::open(path).expect("a directory opens");
        let read_only = dirs.iter().map(|(guest, host)| (guest.clone(), open(host)));
        let places = Places::new(open(self.workspace.path()), open(self.tmp.path()), read_only);
        let (build, runtime) = (build.clone(), runtime.clone());
        let made = match &self.snapshot {
            None => Instance::from_base(build, runtime, places, *memory_bytes).await,
            Some(snapshot) => {
                let packs = snapshot.packs.iter().map(|pack| Cursor::new(&self.packs[&pack.file]));
                let packs = Packs::open(&build, snapshot, packs.collect()).expect("whole packs");
                Instance::restore(build, runtime, places, *memory_bytes, snapshot, packs).await
            }
        };
        made.unwrap_or_else(|e| panic!("no instance: {e}"))
    }
}

/// Runs every piece of code and compares its result's text.
pub async fn all(context: &mut Context, cases: &[(&str, &str)]) {
    for (code, text) in cases {
        let ran = context.run(code).await;
        assert_eq!(ran.text(), *text, "{code}");
    }
}

/// Runs code that does its worst to what the interpreter needs. Afterwards other code is run and
/// answered, values and errors, in new instances too; gives what became of the first.
pub async fn goes_on(context: &mut Context, code: &str, probe: (&str, Value), error: &str) -> Ran {
    let ran = context.run(code).await;
    for _ in 0..2 {
        let next = context.run(probe.0).await;
        assert_eq!(next.json(), Some(probe.1.clone()), "after {code}: {ran:?}");
        let next = context.run(error).await;
        assert!(next.error().message.starts_with('x'), "after {code}: {next:?}");
        assert!(!next.rolled_back(), "after {code}: {next:?}");
        context.evict();
    }
    ran
}

/// How code of a language fills its memory, and lets it go.
pub struct Filling<'a> {
    /// What comes first: it may end at the limit.
    pub begin: &'a str,
    /// What takes `{k}` bytes, about, each time that it runs.
    pub steps: &'a [&'a str],
    /// What lets all of it go, each alone.
    pub frees: &'a [&'a str],
    /// What takes much of the memory afterwards, and its value.
    pub large: (&'a str, &'a str),
}

/// Fills a context in ever smaller steps, until not even the smallest is possible. Whatever was kept
/// on the way is freed by code, in this instance and in new ones.
pub async fn fill_and_free(context: &mut Context, filling: &Filling<'_>) {
    let ran = context.run(filling.begin).await;
    for _ in 0..3 {
        assert_eq!(context.again("1").await.text(), "1", "after {ran:?}");
    }
    for step in filling.steps {
        let mut size = 8usize << 20;
        while size >= 64 {
            let code = step.replace("{k}", &size.to_string());
            let ran = context.run(&code).await;
            if ran.outcome.error.is_none() {
                continue;
            }
            size /= 2;
            if ran.rolled_back() {
                assert_eq!(ran.error().name, "ExecutionLimitError", "{code}: {ran:?}");
            }
            let mut other = context.fork();
            for _ in 0..2 {
                let ran = other.again("1").await;
                // Where what is left is less than an execution takes for a while.
                let full = ran.rolled_back() && ran.error().name == "ExecutionLimitError";
                assert!(full || ran.text() == "1", "after {code}: {ran:?}");
            }
            let free = filling.frees[size.ilog2() as usize % filling.frees.len()];
            frees(&mut other, free, filling.large, &code).await;
        }
    }
    for free in filling.frees {
        let mut other = context.fork();
        frees(&mut other, free, filling.large, "all").await;
    }
    frees(context, filling.frees[0], filling.large, "all").await;
}

async fn frees(context: &mut Context, free: &str, large: (&str, &str), after: &str) {
    let ran = context.run(free).await;
    assert!(ran.outcome.error.is_none(), "{free} after {after}: {ran:?}");
    assert_eq!(context.run(large.0).await.text(), large.1, "{free} after {after}");
    assert_eq!(context.again(large.0).await.text(), large.1, "{free} after {after}");
}
