//! What is installed, read again where it changed.

use super::Error;
use crate::engines::{self, Cache, EngineBuild};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// How long after they are first used engines are looked through: what waits for a server that just
/// started goes first.
const LOOK: Duration = Duration::from_secs(1);

/// The index of the engine cache.
pub(super) struct Index {
    cache: Cache,
    read: Mutex<Option<(Mark, Arc<List>)>>,
}

/// What is installed and runs here.
#[derive(Debug, Default)]
pub(super) struct List {
    /// Old builds among it, newest last.
    pub usable: Vec<EngineBuild>,
    /// The newest of each engine.
    pub current: Vec<EngineBuild>,
    /// What is to be mapped: all but what was found damaged when the list was made.
    pub mapped: Vec<EngineBuild>,
    /// What is not as it was written, and how; by [`EngineBuild::build`].
    damaged: Mutex<HashMap<String, String>>,
}

impl List {
    /// What is wrong with the files of a build, as far as they were looked at.
    pub fn damage(&self, build: &EngineBuild) -> Option<String> {
        let damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged.is_empty() { None } else { damaged.get(&build.build()).cloned() }
    }
}

/// What is wrong with the files of a build.
fn look_at(cache: &Cache, build: &EngineBuild) -> Option<String> {
    // What lasts is damage: descriptors that were short for a moment are none.
    let checked = engines::check_and_seal(cache, build).or_else(|_| {
        std::thread::sleep(LOOK);
        engines::check_and_seal(cache, build)
    });
    let what = match checked.err()? {
        engines::Error::Damaged { file, what } => format!("{}: {what}", file.display()),
        other => other.to_string(),
    };
    tracing::error!(engine = build.name, what, "an engine is damaged, and is not used");
    Some(what)
}

/// Holds the files of these builds against their hashes, once and beside everything else: nobody is
/// to compute with what a disk has garbled, and nobody is to wait for that.
fn look_through(cache: Cache, builds: Vec<EngineBuild>, list: Weak<List>) {
    let look = move || {
        std::thread::sleep(LOOK);
        // Of this thread alone: whoever runs code goes first.
        let _ = rustix::process::nice(19);
        for build in &builds {
            let Some(list) = list.upgrade() else { return };
            if let Some(what) = look_at(&cache, build) {
                let mut damaged = list.damaged.lock().unwrap_or_else(PoisonError::into_inner);
                damaged.insert(build.build(), what);
            }
        }
    };
    // Without a thread nothing is looked at, as before.
    let _ = std::thread::Builder::new().name("engines".into()).spawn(look);
}

/// What tells one state of the file from another: it is replaced as a whole.
type Mark = Option<(u64, u64, i64, i64)>;

impl Index {
    pub fn new(dir: PathBuf) -> Self {
        Self { cache: Cache::new(dir), read: Mutex::default() }
    }

    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    pub fn read(&self) -> Result<Arc<List>, Error> {
        let path = self.cache.dir().join("index.json");
        let mark = path.metadata().ok().map(|m| (m.ino(), m.size(), m.mtime(), m.mtime_nsec()));
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, list)) = &*read
            && *of == mark
        {
            return Ok(list.clone());
        }
        let mut list = List::default();
        for build in self.cache.builds()? {
            if self.cache.usable(&build)? {
                list.current.retain(|other| other.name != build.name);
                list.current.push(build.clone());
                list.usable.push(build);
            }
        }
        // What somebody has touched is read before anything is made of it, the rest later.
        let old = list.usable.iter().filter(|build| !list.current.contains(build));
        let all = list.current.iter().chain(old).cloned();
        let (trusted, touched): (Vec<_>, Vec<_>) =
            all.partition(|build| engines::holds(&self.cache, build));
        let damage = |build: &EngineBuild| Some((build.build(), look_at(&self.cache, build)?));
        list.damaged = Mutex::new(touched.iter().filter_map(damage).collect());
        list.mapped = list.usable.iter().filter(|b| list.damage(b).is_none()).cloned().collect();
        let list = Arc::new(list);
        look_through(self.cache.clone(), trusted, Arc::downgrade(&list));
        *read = Some((mark, list.clone()));
        Ok(list)
    }
}
