//! Starting instances under a runtime.

use super::config::{OciSpec, config};
use super::instance::OciInstance;
use super::runtime::{Runtime, last_message};
use crate::cgroup::{Mounts, Tree};
use crate::ids::Pool;
use crate::images::Images;
use crate::layout::{Layout, Meta, write_json};
use crate::native::{ID_BASE_START, environment};
use crate::{
    Adopted, Capabilities, Engine, Error, IdRange, Identity, Instance, InstanceSpec, dirs, fail,
    flatcopy,
};
use async_trait::async_trait;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::ObjectId;

/// How long a runtime may take for a start.
const START_MAX: Duration = Duration::from_secs(60);

/// How an engine over a runtime is opened.
#[derive(Debug, Clone)]
pub struct OciOptions {
    /// The data directory; made where it is not there. One engine at a time.
    pub data_dir: PathBuf,
    /// The runtime's program: a path, or a name that `PATH` finds.
    pub runtime: PathBuf,
    /// First host uid and gid that instances get.
    pub id_base_start: u32,
}

impl OciOptions {
    /// `runc` over a data directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let data_dir = data_dir.into();
        Self { data_dir, runtime: PathBuf::from("runc"), id_base_start: ID_BASE_START }
    }
}

/// What all instances of an engine share.
pub(super) struct Shared {
    pub layout: Arc<Layout>,
    pub runtime: Runtime,
    images: Images,
    pool: Pool,
    tree: Tree,
    boot_id: String,
}

/// The engine `oci`: a runtime such as runc. Each start copies its image, as not every runtime
/// maps ids on mounts; instances end with the server.
pub struct OciEngine {
    shared: Arc<Shared>,
}

impl OciEngine {
    /// Opens a data directory. [`Error::Unsupported`] where there is no such runtime, or where
    /// the caller is not root.
    pub fn open(options: OciOptions) -> Result<Arc<Self>, Error> {
        if !rustix::process::geteuid().is_root() {
            let text = "the engine oci needs root";
            return Err(Error::Unsupported(text.to_owned()));
        }
        let runtime = &options.runtime;
        let found = std::process::Command::new(runtime)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .is_ok_and(|output| output.status.success());
        if !found {
            return Err(Error::Unsupported(format!(
                "there is no runtime {}: install it, e.g. apt-get install runc",
                runtime.display()
            )));
        }
        let layout = Arc::new(Layout::open(&options.data_dir)?);
        dirs::ensure(&layout.root, "oci", 0o700).map_err(fail::step("make the directory oci"))?;
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let subids = format!("{}\n{}", read("/etc/subuid"), read("/etc/subgid"));
        let tree = Tree::prepare(&Mounts::detect(), &layout.cgroup_name());
        let runtime = Runtime { program: options.runtime, state: layout.path.join("oci") };
        let shared = Shared {
            images: Images::new(layout.clone()),
            pool: Pool::new(options.id_base_start, &subids),
            tree,
            boot_id: spawner::boot_id().map_err(fail::step("read the boot id"))?,
            runtime,
            layout,
        };
        Ok(Arc::new(Self { shared: Arc::new(shared) }))
    }

    /// The images of the data directory.
    pub fn images(&self) -> &Images {
        &self.shared.images
    }
}

#[async_trait]
impl Engine for OciEngine {
    fn name(&self) -> &'static str {
        "oci"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            memory_limit: true,
            pids_limit: true,
            cpu_limit: true,
            disk_limit: false,
            users: true,
            tree_kill: false,
            adopt: false,
        }
    }

    async fn adopt(&self) -> Result<Vec<Adopted>, Error> {
        let layout = &self.shared.layout;
        layout.trash.sweep();
        for id in self.shared.runtime.list().await? {
            self.shared.runtime.delete(&id).await;
        }
        for (name, _) in layout.run_dirs().map_err(fail::step("read the run directories"))? {
            let gone = layout.trash.throw(&layout.run, &name);
            gone.map_err(fail::step("clear a run directory"))?;
        }
        Ok(Vec::new())
    }

    async fn start(&self, spec: InstanceSpec) -> Result<Arc<dyn Instance>, Error> {
        if spec.enable_internet {
            let text = "this engine gives instances no network beyond loopback";
            return Err(Error::Unsupported(text.to_owned()));
        }
        let shared = self.shared.clone();
        let name = spec.object.to_string();
        // A task of its own: a caller that goes away must not leave a half-made instance.
        let task = tokio::spawn(async move {
            let started = start(&shared, &spec).await;
            if started.is_err() {
                shared.runtime.delete(&name).await;
                let _ = shared.layout.trash.throw(&shared.layout.run, &name);
            }
            started
        });
        let started = task.await.map_err(|e| Error::Failed(format!("the start broke off: {e}")))?;
        Ok(started?)
    }

    async fn logs(&self, object: &ObjectId) -> Result<Vec<u8>, Error> {
        self.shared.layout.logs_of(object).await
    }

    async fn workspace(&self, object: &ObjectId) -> Result<PathBuf, Error> {
        Ok(self.shared.layout.workspace_path(object))
    }

    async fn make_workspace(&self, object: &ObjectId) -> Result<OwnedFd, Error> {
        self.shared.layout.make(object, Layout::workspace_place).await
    }

    async fn contexts_dir(&self, object: &ObjectId) -> Result<OwnedFd, Error> {
        self.shared.layout.make(object, Layout::contexts).await
    }

    fn borrow_ids(&self) -> Result<Option<IdRange>, Error> {
        let text = "the engine oci gives files of /workspace to each instance's own ids: code \
                    contexts need the engine native";
        Err(Error::Unsupported(text.to_owned()))
    }

    async fn measure_workspace(&self, object: &ObjectId) -> Result<(u64, u64), Error> {
        self.shared.layout.measure_workspace(object).await
    }

    async fn purge(&self, object: &ObjectId) -> Result<(), Error> {
        let (layout, object) = (self.shared.layout.clone(), *object);
        let gone = tokio::task::spawn_blocking(move || layout.purge(&object)).await;
        let gone = gone.map_err(|e| Error::Failed(format!("the removal broke off: {e}")))?;
        gone.map_err(fail::step("remove the workspace"))
    }

    async fn image_exists(&self, name: &str) -> bool {
        self.shared.images.exists(name)
    }
}

async fn start(shared: &Arc<Shared>, spec: &InstanceSpec) -> Result<Arc<OciInstance>, Error> {
    let name = spec.object.to_string();
    if shared.runtime.state(&name).await.is_some_and(|(status, _)| status == "running") {
        return Err(Error::Failed("an instance of this sandbox runs already".to_owned()));
    }
    let (made_shared, made_spec) = (shared.clone(), spec.clone());
    let made = tokio::task::spawn_blocking(move || bundle(&made_shared, &made_spec)).await;
    let (range, env, log) =
        made.map_err(|e| Error::Failed(format!("the copy broke off: {e}")))??;
    let dir = shared.layout.path.join("run").join(&name);
    let errors = dir.join("runtime.log");
    let mut call = tokio::process::Command::new(&shared.runtime.program);
    call.arg("--root").arg(&shared.runtime.state).arg("--log").arg(&errors);
    call.args(["--log-format", "json", "run", "--bundle"]).arg(&dir).arg(&name);
    let copy = log.try_clone().map_err(fail::step("open the log"))?;
    call.stdin(Stdio::null()).stdout(log).stderr(copy);
    let mut child = call.spawn().map_err(fail::step("run the runtime"))?;
    let begun = Instant::now();
    let pid = loop {
        if let Some((status, pid)) = shared.runtime.state(&name).await
            && matches!(status.as_str(), "running" | "stopped")
            && pid > 0
        {
            break pid;
        }
        let over = child.try_wait().map_err(fail::step("wait for the runtime"))?;
        if over.is_some() || begun.elapsed() > START_MAX {
            let why = last_message(&errors).unwrap_or_else(|| "it ended at once".to_owned());
            return Err(match why.contains("exec:") || why.contains("executable file") {
                true => Error::Entrypoint(format!("the entrypoint cannot be run: {why}")),
                false => Error::Failed(format!("the runtime: {why}")),
            });
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let init = spawner::pidfd_open(pid).map_err(fail::step("watch the main process"))?;
    use std::os::fd::AsFd;
    let identity = Identity {
        boot_id: shared.boot_id.clone(),
        pid,
        pidfs_inode: spawner::pidfd_inode(init.as_fd()).unwrap_or(0),
        start_time: spawner::start_time(pid).unwrap_or(0),
    };
    let cgroups = shared.tree.paths(&name);
    let instance = OciInstance::new(
        shared.clone(),
        spec.object,
        spec.generation,
        identity,
        init,
        env,
        cgroups,
        range,
    );
    tokio::spawn(instance.clone().watch(child));
    Ok(instance)
}

type Bundle = (crate::ids::Range, std::collections::BTreeMap<String, String>, OwnedFd);

/// Makes the bundle: the image copied and given to the instance's ids. Blocks.
fn bundle(shared: &Shared, spec: &InstanceSpec) -> Result<Bundle, Error> {
    let layout = &shared.layout;
    let name = spec.object.to_string();
    layout.trash.throw(&layout.run, &name).map_err(fail::step("clear the run directory"))?;
    let run =
        dirs::ensure(&layout.run, &name, 0o711).map_err(fail::step("make the run directory"))?;
    let none = || Error::Failed("no range of ids is free".to_owned());
    let range = shared.pool.take().ok_or_else(none)?;
    let image = shared.images.open_for(&spec.image, |dir_name| {
        let meta = Meta {
            generation: spec.generation,
            image_dir: dir_name.to_owned(),
            env: Default::default(),
            disk_mb: spec.limits.disk_mb,
            inactivity_ms: 0,
            id_base: Some(range.base()),
        };
        write_json(&run, "meta", &meta).map_err(fail::step("note the instance"))
    })?;
    let rootfs = dirs::ensure(&run, "rootfs", 0o755).map_err(fail::step("make the root"))?;
    flatcopy::copy(&image.rootfs, &rootfs, range.base()).map_err(fail::step("copy the image"))?;
    let workspace =
        layout.make_workspace(&spec.object).map_err(fail::step("make the workspace"))?;
    let (uid, gid) = (Uid::from_raw(range.base()), Gid::from_raw(range.base()));
    rustix::fs::chownat(&workspace, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
        .map_err(|e| fail::step("give the workspace away")(e.into()))?;
    let logs = layout.logs(&spec.object).map_err(fail::step("make the log directory"))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
    let log = rustix::fs::openat(logs, "log", flags, Mode::from_raw_mode(0o600))
        .map_err(|e| fail::step("open the log")(e.into()))?;
    let idle = ["/bin/sleep".to_owned(), "2147483647".to_owned()];
    let argv = spec.entrypoint.as_deref().unwrap_or(&idle);
    let env = environment(&image.env, spec.env.iter().map(|(k, v)| (k, Some(v))));
    let path = layout.path.join("run").join(&name).join("rootfs");
    let text = config(&OciSpec {
        rootfs: &path,
        workspace: &layout.workspace_path(&spec.object),
        host_image: image.host,
        argv,
        env: &env,
        hostname: &spec.hostname,
        id_base: range.base(),
        cgroups_path: &format!("/{}/{name}", layout.cgroup_name()),
        limits: &spec.limits,
    });
    write_json(&run, "config.json", &text).map_err(fail::step("write config.json"))?;
    open_up(&layout.path)?;
    drop(File::from(rootfs));
    Ok((range, image.env, log))
}

/// A runtime resolves the root's path as the instance's own root, who must be let through the
/// directories above; he may not list them.
fn open_up(data_dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    for name in ["", "run", "sandboxes"] {
        let path = data_dir.join(name);
        let now = std::fs::metadata(&path).map_err(fail::step("look at a directory"))?;
        let mode = now.permissions().mode() | 0o011;
        let _ = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
    }
    Ok(())
}
