//! What a zygote maps, and its workers have from the fork on.

use crate::build::Build;
use crate::engines::{Cache, EngineBuild};
use crate::memory::load_module;
use crate::{BaseMeta, drivers, new_engine};
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wasmtime::{Engine, Module};

/// Builds that are mapped.
pub(crate) struct Mapped {
    engine: Engine,
    /// The engine cache; `None`: there is none yet.
    cache: Option<OwnedFd>,
    /// By [`EngineBuild::build`] and name.
    builds: HashMap<(String, String), Loaded>,
}

/// A build that is mapped.
struct Loaded {
    build: Arc<Build>,
    /// Its base image, relative to the cache.
    image: PathBuf,
    inode: u64,
}

impl Mapped {
    /// Maps builds. Also gives those that could not be, and why.
    pub fn load(cache: &Path, builds: &[EngineBuild]) -> io::Result<(Self, Vec<(String, String)>)> {
        let engine = new_engine().map_err(|e| io::Error::other(format!("{e:#}")))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let place = match rustix::fs::open(cache, flags, Mode::empty()) {
            Ok(place) => Some(place),
            Err(rustix::io::Errno::NOENT) => None,
            Err(e) => return Err(e.into()),
        };
        let mut mapped = Self { engine, cache: place, builds: HashMap::new() };
        let mut modules = HashMap::new();
        let mut broken = Vec::new();
        for build in builds {
            match mapped.one(&Cache::new(cache), build, &mut modules) {
                Ok(loaded) => {
                    mapped.builds.insert((build.build(), build.name.clone()), loaded);
                }
                Err(what) => broken.push((build.build(), what)),
            }
        }
        Ok((mapped, broken))
    }

    fn one(
        &self,
        cache: &Cache,
        build: &EngineBuild,
        modules: &mut HashMap<PathBuf, Module>,
    ) -> Result<Loaded, String> {
        let driver = drivers::find(&build.name).ok_or("no driver speaks to it")?;
        let path = cache.path(&build.module);
        let module = match modules.get(&path) {
            Some(module) => module.clone(),
            None => {
                let module = load_module(&self.engine, &path).map_err(|e| format!("{e:#}"))?;
                modules.insert(path, module.clone());
                module
            }
        };
        // Relative to the cache: where that is is the operator's alone.
        let named = |file: &Path, e: io::Error| format!("{}: {e}", file.display());
        let text = std::fs::read(cache.path(&build.meta)).map_err(|e| named(&build.meta, e))?;
        let meta: BaseMeta = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        let image = File::open(cache.path(&build.image)).map_err(|e| named(&build.image, e))?;
        let inode = image.metadata().map_err(|e| e.to_string())?.ino();
        let loaded = Build::new(&module, image, meta, driver).map_err(|e| e.to_string())?;
        Ok(Loaded { build: loaded, image: build.image.clone(), inode })
    }

    /// In a worker: its builds, whose base images are in this directory.
    pub fn builds(&self, engines: &Path) -> Builds {
        let closed = |loaded: &Loaded| Closed {
            build: loaded.build.clone(),
            image: engines.join(&loaded.image),
            inode: loaded.inode,
        };
        let all = self.builds.iter().map(|(key, loaded)| (key.clone(), closed(loaded)));
        Builds { closed: all.collect(), open: HashMap::new() }
    }

    /// The engine of all of them.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The directory of the engine cache.
    pub fn cache(&self) -> Option<&OwnedFd> {
        self.cache.as_ref()
    }
}

/// The builds of a worker. Each is opened when it is first used, as most are not.
pub(crate) struct Builds {
    closed: HashMap<(String, String), Closed>,
    open: HashMap<(String, String), Arc<Build>>,
}

/// A build that was mapped before the fork, and whose base image is closed since.
struct Closed {
    build: Arc<Build>,
    image: PathBuf,
    inode: u64,
}

impl Builds {
    /// One of them. Opens its base image by the way that a worker has, through which nobody can write
    /// to it; one that is gone or exchanged is not to be used.
    pub fn get(&mut self, key: &(String, String)) -> Option<Arc<Build>> {
        if let Some(build) = self.open.get(key) {
            return Some(build.clone());
        }
        let Closed { build, image, inode } = self.closed.get(key)?;
        build.image.reopen(File::open(image).ok()?, *inode).ok()?;
        self.open.insert(key.clone(), build.clone());
        Some(build.clone())
    }
}
