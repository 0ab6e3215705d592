//! A small module and its driver. Code is a list of commands, one a line.

use async_trait::async_trait;
use interpreters::drivers::Driver;
use interpreters::pages::PageMap;
use interpreters::wasi::{Places, Room, Sink};
use interpreters::{
    BaseMeta, Booted, Build, Execution, Guest, Instance, InstanceError, Live, NewSnapshot, Outcome,
    Packs, Runtime, Snapshot, Stop, new_engine,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;
use types::{RichResult, Stream};
use wasmtime::{Linker, Module};

pub const MIB: u64 = 1 << 20;
pub const PAGE: usize = 4096;
/// Pages of 64 KiB that the module begins with; two more are there when it has started.
const PAGES: u32 = 4;

/// `small.wat` as `wat2wasm` of wabt makes it.
const MODULE: &[u8] = include_bytes!("small.wasm");

/// Its driver: it reads commands on the host's side.
pub struct Commands;

fn number(word: Option<&str>) -> u64 {
    word.and_then(|word| word.parse().ok()).expect("a number")
}

impl Commands {
    async fn command(live: &mut Live, seed: &Value, line: &str) -> Result<Option<Value>, Stop> {
        let mut words = line.split(' ');
        let word = words.next().unwrap_or_default();
        let mut arg = || number(words.next());
        match word {
            "poke" => live.write(arg() as u32, &[arg() as u8])?,
            "fill" => {
                let (page, byte) = (arg() as u32, arg() as u8);
                live.write(page * PAGE as u32, &[byte; PAGE])?;
            }
            "negate" => {
                let page = arg() as u32 * PAGE as u32;
                let mut bytes = live.read(page, PAGE as u32)?;
                bytes.chunks_exact_mut(8).for_each(|double| double[7] ^= 0x80);
                live.write(page, &bytes)?;
            }
            "peek" => return Ok(Some(json!(live.read(arg() as u32, 1)?[0]))),
            "hash" => {
                let bytes = live.memory.data(&live.store);
                return Ok(Some(json!(blake3::hash(bytes).to_hex().as_str())));
            }
            "grow" => {
                let grown: i32 = live.call("grow", arg() as u32).await?;
                return Ok(Some(json!(grown)));
            }
            "clock" => return Ok(Some(json!(live.call::<(), u64>("clock", ()).await?))),
            // What every language takes for a value.
            "1" => return Ok(Some(json!(1))),
            "seed" => return Ok(Some(seed.clone())),
            "unknown" => return Ok(Some(json!(live.call::<(), i32>("unknown", ()).await?))),
            "sleep" => {
                live.call::<u64, i32>("sleep", arg() * 1_000_000).await?;
            }
            "say" => {
                let (fd, times) = (arg() as u32, arg() as u32);
                let text = words.collect::<Vec<_>>().join(" ");
                live.write(2048, text.as_bytes())?;
                live.call::<_, ()>("say", (fd, text.len() as u32, times)).await?;
            }
            "exit" => live.call::<_, ()>("exit", arg() as u32).await?,
            "deep" => {
                live.call::<(), i32>("deep", ()).await?;
            }
            plain => live.call::<(), ()>(plain, ()).await?,
        }
        Ok(None)
    }
}

#[async_trait]
impl Driver for Commands {
    fn link(&self, _linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        Ok(())
    }

    async fn boot(&self, live: &mut Live) -> Result<Value, Stop> {
        live.call::<_, i32>("grow", 2).await?;
        for page in 1..(PAGES + 2) * 16 {
            if page % 3 != 0 {
                live.write(page * PAGE as u32, &[page as u8; PAGE])?;
            }
        }
        Ok(json!({ "made": true }))
    }

    async fn call(
        &self,
        live: &mut Live,
        handles: &Value,
        request: &[u8],
    ) -> Result<Vec<u8>, Stop> {
        assert_eq!(handles, &json!({ "made": true }));
        let request: Value = serde_json::from_slice(request).expect("JSON");
        let mut last = None;
        for line in request["code"].as_str().expect("code").lines() {
            last = Commands::command(live, &request["seed"], line).await?;
        }
        let result = last.map(|value| json!({ "text": value.to_string(), "json": value }));
        let answer = json!({ "cwd": request["cwd"], "result": result, "error": null });
        Ok(answer.to_string().into_bytes())
    }
}

/// Keeps what is written.
#[derive(Clone, Default)]
pub struct Kept(pub Arc<std::sync::Mutex<Vec<u8>>>);

impl Sink for Kept {
    fn output(&mut self, _stream: Stream, bytes: Vec<u8>, _at: i64) {
        self.0.lock().expect("nobody panicked").extend(bytes);
    }

    fn result(&mut self, _result: RichResult) {}
}

/// The module, its base, and directories for its guests.
pub struct Fixture {
    pub build: Arc<Build>,
    pub runtime: Arc<Runtime>,
    pub dir: tempfile::TempDir,
}

impl Fixture {
    pub async fn new() -> Self {
        Self::with(PageMap::open()).await
    }

    pub async fn with(pages: PageMap) -> Self {
        Self::stacked(pages, 0).await
    }

    /// With a stack of this size, bytes.
    pub async fn stacked(pages: PageMap, stack: u64) -> Self {
        let engine = new_engine().expect("an engine");
        let runtime = Runtime::new(&engine, pages).expect("a thread");
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("workspace")).expect("mkdir");
        std::fs::create_dir(dir.path().join("tmp")).expect("mkdir");
        let module = Module::new(&engine, MODULE).expect("a module");
        let wasm = "11".repeat(32);
        let (driver, places) = (Arc::new(Commands), places(dir.path()));
        let kept = Box::new(Kept::default());
        let booted = Booted::start(&module, driver.clone(), &runtime, places, 16 * MIB, kept);
        let image = tempfile::tempfile().expect("a file");
        let booted = booted.await.expect("it starts");
        // The one that it has ends at 65536.
        assert!(matches!(booted.write(&image, &wasm, 4096), Err(InstanceError::NotAtRest(_))));
        let meta: BaseMeta = booted.write(&image, &wasm, stack).expect("write");
        let build = Build::new(&module, image, meta, driver).expect("they belong together");
        Fixture { build, runtime, dir }
    }

    pub fn places(&self) -> Places {
        places(self.dir.path())
    }

    pub async fn fresh(&self) -> Instance {
        let (build, runtime) = (self.build.clone(), self.runtime.clone());
        Instance::from_base(build, runtime, self.places(), 16 * MIB).await.expect("it starts")
    }

    pub async fn restore(&self, context: &Context) -> Result<Instance, InstanceError> {
        let (build, runtime) = (self.build.clone(), self.runtime.clone());
        let snapshot = context.snapshot.as_ref().expect("it was saved");
        let packs = context.packs(&build, snapshot)?;
        Instance::restore(build, runtime, self.places(), 16 * MIB, snapshot, packs).await
    }
}

fn places(dir: &std::path::Path) -> Places {
    let open = |name| Places::open(&dir.join(name)).expect("a directory");
    Places::new(open("workspace"), open("tmp"), [])
}

/// What is stored of a context.
#[derive(Default)]
pub struct Context {
    pub snapshot: Option<Snapshot>,
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Context {
    pub fn keep(&mut self, new: NewSnapshot) {
        if let Some(bytes) = new.pack {
            let pack = new.snapshot.packs.last().expect("the new one");
            assert_eq!(pack.bytes, bytes.len() as u64);
            self.files.insert(pack.file.clone(), bytes);
        }
        self.files.retain(|name, _| new.snapshot.packs.iter().any(|pack| pack.file == *name));
        self.snapshot = Some(new.snapshot);
    }

    pub fn packs(
        &self,
        build: &Build,
        snapshot: &Snapshot,
    ) -> Result<Packs<Cursor<Vec<u8>>>, InstanceError> {
        let files = snapshot.packs.iter().map(|pack| Cursor::new(self.files[&pack.file].clone()));
        Packs::open(build, snapshot, files.collect())
    }
}

pub fn job(code: &str) -> Execution {
    Execution {
        code: code.to_owned(),
        name: "<code>".to_owned(),
        env: BTreeMap::new(),
        cwd: "/workspace".to_owned(),
        stdin: Vec::new(),
        timeout: Duration::from_secs(30),
        memory_bytes: 16 * MIB,
        output_max: 1 << 20,
        room: Room::UNLIMITED,
        kept: true,
    }
}

/// Runs commands that must answer, and gives the last value.
pub async fn run(instance: &mut Instance, code: &str) -> Value {
    let outcome = stopped(instance, code).await;
    assert_eq!(outcome.stopped, None, "{code}");
    outcome.result.and_then(|result| result.json).unwrap_or(Value::Null)
}

pub async fn stopped(instance: &mut Instance, code: &str) -> Outcome {
    instance.execute(&job(code), Box::new(Kept::default())).await
}
