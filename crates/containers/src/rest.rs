//! A data directory that no server uses, as an engine: it reads what instances left, and starts
//! and removes nothing.

use crate::layout::Layout;
use crate::{Adopted, Capabilities, Engine, Error, IdRange, Instance, InstanceSpec, leaks};
use async_trait::async_trait;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use types::ObjectId;

/// What is there of the instances of a data directory without a server.
pub struct AtRest {
    layout: Arc<Layout>,
    limits: OnceLock<[bool; 3]>,
}

impl AtRest {
    /// Opens a data directory, whose lock the caller has.
    pub fn open(data: &Path) -> Result<Self, Error> {
        Ok(Self { layout: Arc::new(Layout::open(data)?), limits: OnceLock::new() })
    }
}

fn at_rest<T>() -> Result<T, Error> {
    Err(Error::Unsupported("no server uses the data directory: it is read alone".to_owned()))
}

#[async_trait]
impl Engine for AtRest {
    fn name(&self) -> &'static str {
        "none"
    }

    /// What a server of this process could hold instances to.
    fn capabilities(&self) -> Capabilities {
        let [memory_limit, pids_limit, cpu_limit] = *self.limits.get_or_init(leaks::probe_limits);
        Capabilities {
            memory_limit,
            pids_limit,
            cpu_limit,
            disk_limit: true,
            users: false,
            tree_kill: false,
            adopt: false,
        }
    }

    async fn adopt(&self) -> Result<Vec<Adopted>, Error> {
        at_rest()
    }

    async fn start(&self, _: InstanceSpec) -> Result<Arc<dyn Instance>, Error> {
        at_rest()
    }

    async fn logs(&self, object: &ObjectId) -> Result<Vec<u8>, Error> {
        self.layout.logs_of(object).await
    }

    async fn workspace(&self, object: &ObjectId) -> Result<PathBuf, Error> {
        Ok(self.layout.workspace_path(object))
    }

    async fn make_workspace(&self, _: &ObjectId) -> Result<OwnedFd, Error> {
        at_rest()
    }

    async fn contexts_dir(&self, _: &ObjectId) -> Result<OwnedFd, Error> {
        at_rest()
    }

    fn borrow_ids(&self) -> Result<Option<IdRange>, Error> {
        at_rest()
    }

    async fn measure_workspace(&self, object: &ObjectId) -> Result<(u64, u64), Error> {
        self.layout.measure_workspace(object).await
    }

    async fn purge(&self, _: &ObjectId) -> Result<(), Error> {
        at_rest()
    }

    async fn image_exists(&self, _: &str) -> bool {
        false
    }
}
