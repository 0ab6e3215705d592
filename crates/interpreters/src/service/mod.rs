//! The server's side: workers, and what is asked of them.
//!
//! ```text
//!   Interpreters ── Zygote (one process; another where the cache changed or it died)
//!        │             └─ forks
//!      Worker ──────── Process (none while nothing runs for long, or after it died)
//!   of one sandbox       └─ executions in flight
//! ```

mod error;
mod index;
mod job;
mod packs;
mod process;
mod worker;
mod zygote;

pub use error::Error;
pub use job::{Done, Event, Job, Saved};
pub use packs::{NewPack, PackDir, PackPlace};
pub use worker::{Worker, WorkerSpec};

use crate::engines::{self, EngineBuild};
use crate::memory;
use index::Index;
use process::Process;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use zygote::Zygote;

/// How code is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the engine cache is.
    pub cache: PathBuf,
    /// This program, whose `main` begins with [`crate::run_if_asked`].
    pub program: PathBuf,
    /// Memory of contexts that are kept warm, beyond what they share, bytes.
    pub warm_bytes: u64,
    /// Workers that are kept while they are idle.
    pub workers: usize,
}

impl Options {
    /// The usual ones for a cache: this very program, an eighth of the machine's memory but no less
    /// than 256 MiB, 128 workers.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        let machine = rustix::system::sysinfo();
        let memory = (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit));
        Self {
            cache: cache.into(),
            program: "/proc/self/exe".into(),
            warm_bytes: (memory / 8).max(256 << 20),
            workers: 128,
        }
    }
}

/// What runs code. Clones are the same one; with the last one and its workers all processes end.
#[derive(Clone)]
pub struct Interpreters(Arc<Shared>);

pub(crate) struct Shared {
    options: Options,
    index: Index,
    zygote: tokio::sync::Mutex<Option<Arc<Zygote>>>,
    /// All processes of workers, some of them gone.
    processes: Mutex<Vec<Weak<Process>>>,
}

impl Interpreters {
    /// Starts the zygote, which maps what is installed; no engine is fine.
    ///
    /// # Errors
    /// [`Error::Start`] where it cannot be started, [`Error::Engine`] where the cache is damaged.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let index = Index::new(options.cache.clone());
        let zygote = tokio::sync::Mutex::default();
        let shared = Shared { options, index, zygote, processes: Mutex::default() };
        let interpreters = Self(Arc::new(shared));
        interpreters.0.zygote().await?;
        interpreters.warm();
        Ok(interpreters)
    }

    /// Has the kernel read what contexts are made of, beside everything else: else the first
    /// executions after a boot of the machine do it, page by page.
    fn warm(&self) {
        let cache = self.0.index.cache();
        let of = |build: &EngineBuild| [cache.path(&build.module), cache.path(&build.image)];
        let files: BTreeSet<PathBuf> = self.engines().iter().flat_map(of).collect();
        let work = move || {
            for path in files {
                let read = std::fs::File::open(&path).and_then(|file| memory::warm(&file));
                if let Err(error) = read {
                    tracing::debug!(path = %path.display(), %error, "not read ahead");
                }
            }
        };
        // Nothing depends on it.
        let _ = std::thread::Builder::new().name("warm".into()).spawn(work);
    }

    /// The newest build of each engine that is installed and runs here. Read again where the
    /// cache changed; a cache that cannot be read has none.
    pub fn engines(&self) -> Vec<EngineBuild> {
        self.0.index.read().map(|list| list.current.clone()).unwrap_or_default()
    }

    /// The build that new contexts of an engine are made of.
    ///
    /// # Errors
    /// [`Error::Engine`]: there is none of this name, it is not installed, or it is compiled for
    /// another program or processor.
    pub fn find(&self, name: &str) -> Result<EngineBuild, Error> {
        let list = self.0.index.read()?;
        match list.current.iter().find(|build| build.name == name) {
            Some(build) => sound(&list, build).map(|()| build.clone()),
            // Says which of the reasons it is.
            None => Ok(self.0.index.cache().find(name)?),
        }
    }

    /// The build of a snapshot, where it is still installed and runs here: hashes of its wasm
    /// module and of its base image.
    pub fn find_build(&self, wasm: &str, base: &str) -> Option<EngineBuild> {
        let list = self.0.index.read().ok()?;
        let mut newest_first = list.usable.iter().rev();
        newest_first.find(|build| build.wasm == wasm && build.base == base).cloned()
    }

    /// Whether the files of a build are as they were written, as far as they were looked at.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn is_sound(&self, build: &EngineBuild) -> Result<(), Error> {
        sound(&*self.0.index.read()?, build)
    }

    /// A worker for one sandbox.
    ///
    /// # Errors
    /// [`Error::Start`].
    pub async fn worker(&self, spec: WorkerSpec) -> Result<Worker, Error> {
        Worker::start(self.0.clone(), spec).await
    }

    /// How many worker processes there are.
    pub fn processes(&self) -> usize {
        self.0.lock().iter().filter(|process| process.strong_count() > 0).count()
    }
}

fn sound(list: &index::List, build: &EngineBuild) -> Result<(), Error> {
    match list.damage(build) {
        None => Ok(()),
        Some(what) => Err(Error::Damaged { name: build.name.clone(), what }),
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Process>>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a build is installed and runs here.
    fn has(&self, build: &EngineBuild) -> Result<bool, Error> {
        let same = |own: &EngineBuild| own.name == build.name && own.build() == build.build();
        Ok(self.index.read()?.usable.iter().any(same))
    }

    /// Why no worker can use a build that is installed.
    fn unusable(&self, build: &EngineBuild) -> Error {
        let cache = self.index.cache();
        if let Some(dir) = cache.closed() {
            return engines::Error::Closed { dir }.into();
        }
        let files = build.dirs.iter().map(|dir| &dir.host).chain([&build.image]);
        let what = match files.into_iter().find(|file| !cache.path(file).exists()) {
            Some(gone) => format!("{}: it is gone", gone.display()),
            None => format!("{}: code cannot open it", build.image.display()),
        };
        Error::Damaged { name: build.name.clone(), what }
    }

    /// A zygote that lives and has mapped what is installed now.
    async fn zygote(&self) -> Result<Arc<Zygote>, Error> {
        let list = self.index.read()?;
        let mut place = self.zygote.lock().await;
        if let Some(zygote) = place.as_ref()
            && zygote.is_alive()
            && zygote.has(&list.mapped)
        {
            return Ok(zygote.clone());
        }
        // The older one lives until its last worker has ended.
        let zygote = Zygote::start(&self.options, list.mapped.clone()).await?;
        *place = Some(zygote.clone());
        Ok(zygote)
    }

    /// What the zygote has mapped is not what is there any more: the next process is another's.
    async fn renew(&self) {
        self.zygote.lock().await.take();
    }

    /// A new process for a worker.
    async fn process(self: &Arc<Self>, place: &worker::Place) -> Result<Arc<Process>, Error> {
        let mut last = None;
        for _ in 0..2 {
            let zygote = self.zygote().await?;
            match Process::start(&zygote, place).await {
                Ok(process) => {
                    let mut all = self.lock();
                    all.retain(|process| process.strong_count() > 0);
                    all.push(Arc::downgrade(&process));
                    drop(all);
                    self.trim(&process);
                    return Ok(process);
                }
                // Somebody may have ended it, or it was forked ahead and ended meanwhile.
                Err(Error::WorkerDied) => {
                    last = Some(Error::Start("the worker ended at once".to_owned()));
                }
                // The zygote may have died meanwhile; another one may do better.
                Err(error) if zygote.is_alive() => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| Error::Start("no zygote lives".to_owned())))
    }

    /// Ends idle processes, those used least lately first, while there are too many or they
    /// keep too much; never `spared`.
    fn trim(&self, spared: &Arc<Process>) {
        let mut all: Vec<Arc<Process>> = self.lock().iter().filter_map(Weak::upgrade).collect();
        all.retain(|process| !process.is_dead());
        let mut count = all.len();
        // One may say anything of itself.
        let mut bytes = all.iter().fold(0u64, |sum, one| sum.saturating_add(one.warm_bytes()));
        all.retain(|process| !Arc::ptr_eq(process, spared));
        all.sort_by_key(|process| process.last_used());
        for process in all {
            if count <= self.options.workers && bytes <= self.options.warm_bytes {
                break;
            }
            let warm = process.warm_bytes();
            if process.end_if_idle() {
                count -= 1;
                bytes = bytes.saturating_sub(warm);
            }
        }
    }
}
