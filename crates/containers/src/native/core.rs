//! What all instances of an engine share.

use super::NativeOptions;
use super::helper::Keeper;
use super::instance::NativeInstance;
use crate::cgroup::{Mounts, Tree};
use crate::ids::Pool;
use crate::images::Images;
use crate::layout::Layout;
use crate::{Capabilities, Error, dirs, fail};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::watch;
use types::ObjectId;

/// The shared part.
pub(super) struct Core {
    pub layout: Arc<Layout>,
    pub images: Images,
    pub pool: Pool,
    pub tree: Tree,
    pub capabilities: Capabilities,
    /// Whether instances have a range of ids, which only root can give.
    pub ranges: bool,
    pub usr: Option<OwnedFd>,
    pub helper: Keeper,
    pub boot_id: String,
    /// True once the engine is dropped: drivers let go of their instances.
    pub ends: watch::Sender<bool>,
    live: Mutex<HashMap<ObjectId, Slot>>,
}

/// What an object has.
enum Slot {
    Starting,
    Instance(Weak<NativeInstance>),
}

/// An object's claim to start; given up when dropped.
pub(super) struct Claim {
    core: Arc<Core>,
    object: ObjectId,
    kept: bool,
}

impl Core {
    pub fn open(options: NativeOptions) -> Result<Self, Error> {
        let layout = Arc::new(Layout::open(&options.data_dir)?);
        let root = rustix::process::geteuid().is_root();
        let tree = Tree::prepare(&Mounts::detect(), &layout.cgroup_name());
        let [memory_limit, pids_limit, cpu_limit] = tree.limits();
        let capabilities = Capabilities {
            memory_limit,
            pids_limit,
            cpu_limit,
            disk_limit: true,
            users: root,
            tree_kill: tree.kills(),
            adopt: true,
        };
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let subids = format!("{}\n{}", read("/etc/subuid"), read("/etc/subgid"));
        Ok(Self {
            images: Images::new(layout.clone()),
            pool: Pool::new(options.id_base_start, &subids),
            tree,
            capabilities,
            ranges: root,
            usr: dirs::open(Path::new("/usr")).ok(),
            helper: Keeper::new(options.helper_exe),
            boot_id: spawner::boot_id().map_err(fail::step("read the boot id"))?,
            ends: watch::Sender::new(false),
            live: Mutex::default(),
            layout,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectId, Slot>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims an object for a start. Refused while an instance of it runs or starts.
    pub fn claim(self: &Arc<Self>, object: ObjectId) -> Result<Claim, Error> {
        let mut live = self.lock();
        let busy = match live.get(&object) {
            None => false,
            Some(Slot::Starting) => true,
            Some(Slot::Instance(instance)) => {
                instance.upgrade().is_some_and(|i| i.ending().is_none())
            }
        };
        if busy {
            return Err(Error::Failed("an instance of this sandbox runs already".to_owned()));
        }
        live.insert(object, Slot::Starting);
        Ok(Claim { core: self.clone(), object, kept: false })
    }

    /// Puts an adopted instance in its place.
    pub fn keep(&self, instance: &Arc<NativeInstance>) {
        self.lock().insert(instance.object, Slot::Instance(Arc::downgrade(instance)));
    }

    /// Instances that run.
    pub fn running(&self) -> Vec<Arc<NativeInstance>> {
        let live = self.lock();
        let all = live.values().filter_map(|slot| match slot {
            Slot::Instance(instance) => instance.upgrade(),
            Slot::Starting => None,
        });
        all.filter(|instance| instance.ending().is_none()).collect()
    }

    /// Objects that start or have an instance, running or not yet released.
    pub fn has(&self, object: &ObjectId) -> bool {
        self.lock().contains_key(object)
    }

    /// Removes what an ended instance left, where the run directory is still its own.
    pub fn release(&self, instance: &NativeInstance) {
        let mut live = self.lock();
        let name = instance.object.to_string();
        let same = dirs::open_at(&self.layout.run, &*name)
            .and_then(|now| Ok((rustix::fs::fstat(now)?, rustix::fs::fstat(&instance.run)?)))
            .is_ok_and(|(now, own)| (now.st_dev, now.st_ino) == (own.st_dev, own.st_ino));
        if same {
            if let Err(error) = self.layout.trash.throw(&self.layout.run, &name) {
                tracing::warn!(object = name, %error, "the run directory stays");
            }
            if matches!(live.get(&instance.object), Some(Slot::Instance(_))) {
                live.remove(&instance.object);
            }
        }
    }
}

impl Claim {
    /// The start succeeded.
    pub fn keep(mut self, instance: &Arc<NativeInstance>) {
        self.core.keep(instance);
        self.kept = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.kept {
            self.core.lock().remove(&self.object);
        }
    }
}
