//! What is installed, read again where it changed.

use super::Error;
use crate::engines::{Cache, EngineBuild};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

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
        let list = Arc::new(list);
        *read = Some((mark, list.clone()));
        Ok(list)
    }
}
