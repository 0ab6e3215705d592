//! Base images: the memory of an interpreter that has started, from which every context starts.

use super::cache::{self, EngineBuild, EngineDir};
use super::catalogue::EngineSpec;
use super::error::at;
use super::strip::Stripped;
use super::{Cache, Error};
use crate::drivers::{self, Driver};
use crate::memory::load_module;
use crate::pages::PageMap;
use crate::wasi::{Places, Sink};
use crate::{BaseMeta, Booted, Guest, Live, Runtime, Stop, new_engine};
use serde_json::Value;
use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use types::{RichResult, Stream};
use wasmtime::Linker;

/// Version of how bases are made: part of an engine's recipe.
pub(crate) const VERSION: u32 = 3;

/// How long an interpreter may take to start, with all that it imports.
const START: Duration = Duration::from_secs(300);
/// How much of what it says is told where it does not start, bytes.
const TALK: usize = 4000;

/// What a base is made from.
pub(crate) struct Given {
    pub spec: &'static EngineSpec,
    /// The module as it came.
    pub wasm: Vec<u8>,
    /// Its SHA-256, hex.
    pub sha256: String,
    /// What is compiled of it.
    pub stripped: Stripped,
}

/// A base image that was made.
pub(crate) struct Made {
    pub hash: String,
    pub image: PathBuf,
    pub meta: PathBuf,
}

/// What is known of a build's base.
///
/// # Errors
/// [`Error::Damaged`]
pub(crate) fn read_meta(cache: &Cache, build: &EngineBuild) -> Result<BaseMeta, Error> {
    let damaged = |what: String| Error::Damaged { file: build.meta.clone(), what };
    let text = std::fs::read(cache.path(&build.meta)).map_err(|e| damaged(e.to_string()))?;
    serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))
}

/// Starts the interpreter and keeps its memory.
pub(crate) fn make(
    cache: &Cache,
    given: Given,
    module: &Path,
    dirs: &[EngineDir],
) -> Result<Made, Error> {
    let (spec, sha256) = (given.spec, given.sha256.clone());
    let wrong = |what: String| Error::Boot { engine: spec.name.to_owned(), what };
    let module = cache.path(module);
    let said = Said::default();
    let driver = drivers::find(spec.name).ok_or_else(|| wrong("no driver speaks to it".into()))?;
    let driver = Arc::new(WithData { driver, given });
    let places = Empty::open(cache, dirs)?;
    // A thread of its own: whoever calls may have a runtime, and one cannot run in another.
    let booted = std::thread::scope(|scope| {
        let boot = || boot(&module, driver, &places, spec.boot_memory, said.clone());
        let thread = scope.spawn(boot);
        thread.join().unwrap_or_else(|_| Err("its thread panicked".to_owned()))
    });
    let booted = booted.map_err(|what| wrong(format!("{what}{}", said.told())))?;

    let bases = cache.dir().join("bases");
    std::fs::create_dir_all(&bases).map_err(at(&bases))?;
    let file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(&bases)
        .map_err(at(&bases))?;
    let meta =
        booted.write(file.as_file(), &sha256, spec.stack).map_err(|e| wrong(e.to_string()))?;
    file.as_file().sync_all().map_err(at(file.path()))?;
    let (image, meta_path) = cache::base_paths(&meta.base);
    let text = serde_json::to_vec_pretty(&meta).map_err(|e| wrong(e.to_string()))?;
    cache.write(&cache.path(&meta_path), &text)?;
    let to = cache.path(&image);
    file.persist(&to).map_err(|e| at(to)(e.error))?;
    Ok(Made { hash: meta.base, image, meta: meta_path })
}

fn boot(
    module: &Path,
    driver: Arc<dyn Driver>,
    places: &Empty,
    memory: u64,
    said: Said,
) -> Result<Booted, String> {
    let engine = new_engine().map_err(|e| format!("{e:#}"))?;
    let module = load_module(&engine, module).map_err(|e| format!("{e:#}"))?;
    let runtime = Runtime::new(&engine, PageMap::unknown()).map_err(|e| e.to_string())?;
    let places = places.places().map_err(|e| e.to_string())?;
    let local = tokio::runtime::Builder::new_current_thread().enable_all().build();
    local.map_err(|e| e.to_string())?.block_on(async {
        let started = Booted::start(&module, driver, &runtime, places, memory, Box::new(said));
        let started = tokio::time::timeout(START, started).await;
        let late = |_| format!("it took longer than {} s", START.as_secs());
        started.map_err(late)?.map_err(|e| match std::error::Error::source(&e) {
            Some(source) => format!("{e}: {source}"),
            None => e.to_string(),
        })
    })
}

/// The directories of an interpreter that starts: nobody's.
struct Empty {
    workspace: tempfile::TempDir,
    tmp: tempfile::TempDir,
    dirs: Vec<(String, PathBuf)>,
}

impl Empty {
    fn open(cache: &Cache, dirs: &[EngineDir]) -> Result<Self, Error> {
        let work = cache.dir().join("work");
        std::fs::create_dir_all(&work).map_err(at(&work))?;
        let fresh = || tempfile::tempdir_in(&work).map_err(at(&work));
        let dirs = dirs.iter().map(|dir| (dir.guest.clone(), cache.path(&dir.host))).collect();
        Ok(Self { workspace: fresh()?, tmp: fresh()?, dirs })
    }

    fn places(&self) -> std::io::Result<Places> {
        let mut read_only = Vec::new();
        for (guest, host) in &self.dirs {
            read_only.push((guest.clone(), Places::open(host)?));
        }
        let [workspace, tmp] = [&self.workspace, &self.tmp].map(|dir| Places::open(dir.path()));
        Ok(Places::new(workspace?, tmp?, read_only))
    }
}

/// What an interpreter says while it starts; it should say nothing.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    fn told(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TALK)..]);
        if text.trim().is_empty() { String::new() } else { format!("; it said: {}", text.trim()) }
    }
}

impl Sink for Said {
    fn output(&mut self, _: Stream, bytes: Vec<u8>, _: i64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
    }
    fn result(&mut self, _: RichResult) {}
}

/// A driver whose module has no data segments: they are written when it starts.
struct WithData {
    driver: Arc<dyn Driver>,
    given: Given,
}

#[async_trait::async_trait]
impl Driver for WithData {
    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        self.driver.link(linker)
    }
    fn state(&self) -> Box<dyn Any + Send> {
        self.driver.state()
    }
    async fn boot(&self, live: &mut Live) -> Result<Value, Stop> {
        let memory = live.memory.data_mut(&mut live.store);
        let written = self.given.stripped.write_data(&self.given.wasm, memory);
        written.map_err(|place| Stop::Driver(format!("data at {place:#x} is out of memory")))?;
        self.driver.boot(live).await
    }
    async fn call(
        &self,
        live: &mut Live,
        handles: &Value,
        request: &[u8],
    ) -> Result<Vec<u8>, Stop> {
        self.driver.call(live, handles, request).await
    }
}
