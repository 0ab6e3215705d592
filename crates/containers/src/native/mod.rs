//! The engine over the spawner: helper, a supervisor per instance, init.
//!
//! The supervisor of an instance is the only one that can run commands in it. When a
//! supervisor is killed, the instance is ended too: its ending is what init's status file says
//! where the main process had ended before, else unknown; its commands' ends are unknown.

mod adopt;
mod book;
mod core;
mod driver;
mod ending;
mod exec;
mod guard;
mod helper;
mod instance;
mod link;
mod pump;
mod remains;
mod start;

pub(crate) use exec::environment;

use self::core::Core;
use crate::images::Images;
use crate::layout::Layout;
use crate::{Adopted, Capabilities, Engine, Error, IdRange, Instance, InstanceSpec, fail};
use async_trait::async_trait;
use instance::NativeInstance;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::ObjectId;

/// First host id of the first range, where nothing else is configured.
pub const ID_BASE_START: u32 = 524_288;
/// Instances that are adopted at once.
const ADOPT_AT_ONCE: usize = 64;

/// How an engine is opened.
#[derive(Debug, Clone)]
pub struct NativeOptions {
    /// The data directory; made where it is not there. One engine at a time.
    pub data_dir: PathBuf,
    /// A program whose first act is [`spawner::run_if_asked`]; `None`: this very program.
    pub helper_exe: Option<PathBuf>,
    /// First host uid and gid that instances get.
    pub id_base_start: u32,
    /// Free space below which all instances are frozen, bytes; `None`: 512 MiB, or a
    /// twentieth of the file system where that is less.
    pub disk_floor_bytes: Option<u64>,
}

impl NativeOptions {
    /// The usual ones for a data directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            helper_exe: None,
            id_base_start: ID_BASE_START,
            disk_floor_bytes: None,
        }
    }
}

/// The engine `native`. Dropping it lets go of its instances, which live on.
pub struct NativeEngine {
    core: Arc<Core>,
    floor: Option<u64>,
    guarded: AtomicBool,
}

impl Drop for NativeEngine {
    fn drop(&mut self) {
        self.core.ends.send_replace(true);
    }
}

impl NativeEngine {
    /// Opens a data directory. Makes the parents of its cgroups; starts nothing.
    pub fn open(options: NativeOptions) -> Result<Arc<Self>, Error> {
        let floor = options.disk_floor_bytes;
        let core = Arc::new(Core::open(options)?);
        Ok(Arc::new(Self { core, floor, guarded: AtomicBool::new(false) }))
    }

    /// The images of the data directory.
    pub fn images(&self) -> &Images {
        &self.core.images
    }

    /// Process id of the helper, where one runs.
    pub fn helper_pid(&self) -> Option<i32> {
        self.core.helper.pid()
    }

    fn guard(&self) {
        if !self.guarded.swap(true, Ordering::SeqCst) {
            tokio::spawn(guard::run(self.core.clone(), self.floor));
        }
    }
}

/// A started instance that nobody has taken yet: ended where its caller went away.
struct Unclaimed(Option<Arc<NativeInstance>>);

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(instance) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                if instance.stop(Duration::ZERO, "").await.is_ok() {
                    instance.release().await;
                }
            });
        }
    }
}

#[async_trait]
impl Engine for NativeEngine {
    fn name(&self) -> &'static str {
        "native"
    }

    fn capabilities(&self) -> Capabilities {
        self.core.capabilities
    }

    async fn adopt(&self) -> Result<Vec<Adopted>, Error> {
        let layout = &self.core.layout;
        layout.trash.sweep();
        let found = layout.run_dirs().map_err(fail::step("read the run directories"))?;
        let mut tasks = tokio::task::JoinSet::new();
        let mut adopted = Vec::new();
        let mut take = |instance: Option<Arc<NativeInstance>>| {
            if let Some(instance) = instance {
                adopted.push(Adopted { object: instance.object, instance });
            }
        };
        for (name, object) in found {
            let Some(object) = object else {
                tracing::warn!(name, "not an instance of ours; removed");
                let _ = layout.trash.throw(&layout.run, &name);
                continue;
            };
            if tasks.len() >= ADOPT_AT_ONCE
                && let Some(Ok(instance)) = tasks.join_next().await
            {
                take(instance);
            }
            let core = self.core.clone();
            tasks.spawn(async move { adopt::adopt(&core, object).await });
        }
        while let Some(done) = tasks.join_next().await {
            take(done.map_err(|e| Error::Failed(format!("an adoption broke off: {e}")))?);
        }
        let core = self.core.clone();
        let swept = tokio::task::spawn_blocking(move || sweep_cgroups(&core)).await;
        swept.map_err(|e| Error::Failed(format!("the sweep broke off: {e}")))?;
        self.guard();
        Ok(adopted)
    }

    async fn start(&self, spec: InstanceSpec) -> Result<Arc<dyn Instance>, Error> {
        self.guard();
        // A task of its own: a caller that goes away must not leave a half-made instance.
        let core = self.core.clone();
        let task = tokio::spawn(async move {
            start::start(core, spec).await.map(|instance| Unclaimed(Some(instance)))
        });
        let started = task.await.map_err(|e| Error::Failed(format!("the start broke off: {e}")))?;
        match started?.0.take() {
            Some(instance) => Ok(instance),
            None => Err(Error::Failed("the start broke off".to_owned())),
        }
    }

    async fn logs(&self, object: &ObjectId) -> Result<Vec<u8>, Error> {
        self.core.layout.logs_of(object).await
    }

    async fn workspace(&self, object: &ObjectId) -> Result<PathBuf, Error> {
        Ok(self.core.layout.workspace_path(object))
    }

    async fn make_workspace(&self, object: &ObjectId) -> Result<OwnedFd, Error> {
        self.core.layout.make(object, Layout::workspace_place).await
    }

    async fn contexts_dir(&self, object: &ObjectId) -> Result<OwnedFd, Error> {
        self.core.layout.make(object, Layout::contexts).await
    }

    fn borrow_ids(&self) -> Result<Option<IdRange>, Error> {
        if !self.core.ranges {
            return Ok(None);
        }
        let range = self.core.pool.take();
        let none = || Error::Failed("no range of ids is free".to_owned());
        Ok(Some(IdRange(range.ok_or_else(none)?)))
    }

    async fn measure_workspace(&self, object: &ObjectId) -> Result<(u64, u64), Error> {
        self.core.layout.measure_workspace(object).await
    }

    async fn purge(&self, object: &ObjectId) -> Result<(), Error> {
        if self.core.running().iter().any(|instance| instance.object == *object) {
            return Err(Error::Failed("an instance of this sandbox runs".to_owned()));
        }
        let (layout, object) = (self.core.layout.clone(), *object);
        let gone = tokio::task::spawn_blocking(move || layout.purge(&object)).await;
        let gone = gone.map_err(|e| Error::Failed(format!("the removal broke off: {e}")))?;
        gone.map_err(fail::step("remove the workspace"))
    }

    async fn image_exists(&self, name: &str) -> bool {
        self.core.images.exists(name)
    }
}

/// Groups below our parents that belong to no run directory: of starts that never ended.
fn sweep_cgroups(core: &Core) {
    for parent in core.tree.parents() {
        for child in crate::cgroup::children(&parent) {
            let name = child.file_name().map(|n| n.to_string_lossy().into_owned());
            let Some(Ok(object)) = name.as_ref().map(|name| name.parse::<ObjectId>()) else {
                continue;
            };
            if core.has(&object) {
                continue;
            }
            let paths = core.tree.paths(&object.to_string());
            if let Err(error) = remains::end_groups(&paths) {
                tracing::warn!(%object, %error, "a cgroup stays");
            }
        }
    }
}
