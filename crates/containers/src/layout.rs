//! The data directory: what lies where.
//!
//! ```text
//! node-id                          eight hex digits; names our cgroups
//! run/<object id>/                 an instance: what the supervisor keeps, and `meta`
//! sandboxes/<object id>/workspace  survives stops
//! sandboxes/<object id>/logs       what main processes wrote
//! sandboxes/<object id>/contexts   memory of code contexts
//! images/<name>/rootfs, image.json
//! trash/                           on its way out
//! ```

use crate::trash::Trash;
use crate::{Error, dirs, fail, measure};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use types::ObjectId;

/// Largest file of ours that is read from a run directory, bytes.
pub(crate) const FILE_MAX: u64 = 1 << 20;
/// Longest log that is read, bytes.
const LOG_FILE_MAX: u64 = 64 << 20;
/// The part of the logs that is told, bytes.
const LOG_TOLD: usize = 1 << 20;
const OVERLAY_MAGIC: u64 = 0x794c_7630;
const NFS_MAGIC: u64 = 0x6969;

/// Our own note beside the supervisor's files: what a later daemon must know of an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Meta {
    pub generation: u64,
    /// Name below `images/`.
    pub image_dir: String,
    /// `PATH` and `HOME` of the image, for commands.
    pub env: BTreeMap<String, String>,
    pub disk_mb: u64,
    pub inactivity_ms: u64,
    pub id_base: Option<u32>,
}

/// An open data directory.
pub(crate) struct Layout {
    pub path: PathBuf,
    pub root: OwnedFd,
    pub run: OwnedFd,
    pub sandboxes: OwnedFd,
    pub images: OwnedFd,
    pub trash: Trash,
    pub node: String,
}

/// Whether instances can live in a directory (that exists): names what is wrong and the cure.
pub fn check_data_dir(path: &Path) -> Result<(), Error> {
    let kind = rustix::fs::statfs(path)
        .map_err(|e| fail::step("look at the data directory")(e.into()))?
        .f_type;
    let wrong = match u64::try_from(kind).unwrap_or(0) {
        OVERLAY_MAGIC => "overlayfs, on which no other overlay can be written",
        NFS_MAGIC => "NFS, on which ids cannot be mapped",
        _ => return Ok(()),
    };
    Err(Error::Unsupported(format!(
        "the data directory {} lies on {wrong}: put it on a local ext4, xfs or btrfs \
         (in a container: on a volume)",
        path.display()
    )))
}

impl Layout {
    /// Opens a data directory, made where it is not there.
    pub fn open(path: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(path).map_err(fail::step("make the data directory"))?;
        let path = path.canonicalize().map_err(fail::step("find the data directory"))?;
        check_data_dir(&path)?;
        let root = dirs::open(&path).map_err(fail::step("open the data directory"))?;
        let sub = |name: &str| {
            let failed = fail::step(format!("make the directory {name}"));
            dirs::ensure(&root, name, 0o700).map_err(failed)
        };
        let (run, sandboxes, images) = (sub("run")?, sub("sandboxes")?, sub("images")?);
        let trash = Trash::new(sub("trash")?).map_err(fail::step("start the trash"))?;
        let node = node_id(&root).map_err(fail::step("make the node id"))?;
        Ok(Self { root, run, sandboxes, images, trash, node, path })
    }

    /// Name of our cgroups.
    pub fn cgroup_name(&self) -> String {
        format!("sandkeep-{}", self.node)
    }

    /// `sandboxes/<object id>`, made where it is not there.
    pub fn sandbox(&self, object: &ObjectId) -> io::Result<OwnedFd> {
        dirs::ensure(&self.sandboxes, &object.to_string(), 0o700)
    }

    /// `logs` of an object, made where it is not there.
    pub fn logs(&self, object: &ObjectId) -> io::Result<OwnedFd> {
        dirs::ensure(self.sandbox(object)?, "logs", 0o700)
    }

    /// The last MiB of what the main processes of an object wrote; empty where there is nothing.
    /// Blocks.
    pub fn read_logs(&self, object: &ObjectId) -> Result<Vec<u8>, Error> {
        let open = dirs::open_at(&self.sandboxes, object.to_string());
        let Ok(dir) = open.and_then(|dir| dirs::open_at(dir, "logs")) else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        // One back end turns its logs over, the other does not.
        for name in ["log.old", "log"] {
            let read = dirs::read(&dir, name, LOG_FILE_MAX).map_err(fail::step("read the logs"))?;
            all.append(&mut read.unwrap_or_default());
        }
        all.drain(..all.len().saturating_sub(LOG_TOLD));
        Ok(all)
    }

    /// [`Layout::read_logs`] where it may not block.
    pub async fn logs_of(self: &Arc<Self>, object: &ObjectId) -> Result<Vec<u8>, Error> {
        let (layout, object) = (self.clone(), *object);
        let read = tokio::task::spawn_blocking(move || layout.read_logs(&object)).await;
        read.map_err(|e| Error::Failed(format!("read the logs: {e}")))?
    }

    /// `contexts` of an object, made where it is not there. What is made beside a purge is
    /// swept by nobody.
    pub fn contexts(&self, object: &ObjectId) -> io::Result<OwnedFd> {
        dirs::ensure(self.sandbox(object)?, "contexts", 0o700)
    }

    /// `workspace` of an object, made where it is not there, as a place alone. Blocks.
    pub fn workspace_place(&self, object: &ObjectId) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = self.make_workspace(object)?;
        Ok(rustix::fs::openat(dir, ".", flags, Mode::empty())?)
    }

    /// Runs one of the makers of directories where it may block.
    pub async fn make(
        self: &Arc<Self>,
        object: &ObjectId,
        what: fn(&Self, &ObjectId) -> io::Result<OwnedFd>,
    ) -> Result<OwnedFd, Error> {
        let (layout, object) = (self.clone(), *object);
        let made = tokio::task::spawn_blocking(move || what(&layout, &object)).await;
        let made = made.map_err(|e| Error::Failed(format!("the start broke off: {e}")))?;
        made.map_err(fail::step("make a directory of the sandbox"))
    }

    /// `workspace` of an object, made where it is not there: never beside a purge, as what is
    /// made then is swept by nobody.
    pub fn make_workspace(&self, object: &ObjectId) -> io::Result<OwnedFd> {
        dirs::ensure(self.sandbox(object)?, "workspace", 0o755)
    }

    /// `workspace` of an object; `None` where it is not there.
    pub fn find_workspace(&self, object: &ObjectId) -> io::Result<Option<OwnedFd>> {
        let open = dirs::open_at(&self.sandboxes, object.to_string())
            .and_then(|dir| dirs::open_at(dir, "workspace"));
        match open {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// Entries below `workspace` of an object, and the lengths of its files.
    pub async fn measure_workspace(
        self: &Arc<Self>,
        object: &ObjectId,
    ) -> Result<(u64, u64), Error> {
        let (layout, object) = (self.clone(), *object);
        let counted =
            tokio::task::spawn_blocking(move || match layout.find_workspace(&object)? {
                Some(dir) => measure::contents(dir.as_fd()),
                None => Ok((0, 0)),
            });
        let counted = counted.await.map_err(|e| Error::Failed(format!("the count broke: {e}")))?;
        counted.map_err(fail::step("count the workspace"))
    }

    /// Moves all that is kept of an object out of reach, for good: an answer that follows is
    /// true after a power cut as well. Blocks.
    pub fn purge(&self, object: &ObjectId) -> io::Result<()> {
        self.trash.throw(&self.sandboxes, &object.to_string())?;
        Ok(rustix::fs::fsync(&self.sandboxes)?)
    }

    /// Where `workspace` is.
    pub fn workspace_path(&self, object: &ObjectId) -> PathBuf {
        self.path.join("sandboxes").join(object.to_string()).join("workspace")
    }

    /// Objects that have a run directory, whatever is in it; other names are `None`.
    pub fn run_dirs(&self) -> io::Result<Vec<(String, Option<ObjectId>)>> {
        let names = dirs::names(&self.run, usize::MAX)?;
        let names = names.iter().map(|n| n.to_string_lossy().into_owned());
        Ok(names.map(|name| (name.clone(), name.parse().ok())).collect())
    }

    /// Image directories that instances stand on, whichever process started them.
    pub fn image_dirs_in_use(&self) -> BTreeSet<String> {
        let mut used = BTreeSet::new();
        for (name, _) in self.run_dirs().unwrap_or_default() {
            let Ok(dir) = dirs::open_at(&self.run, &*name) else { continue };
            if let Some(meta) = read_json::<Meta>(&dir, "meta")
                && !matches!(dirs::read(&dir, "exit", FILE_MAX), Ok(Some(_)))
            {
                used.insert(meta.image_dir);
            }
        }
        used
    }
}

/// Reads one of the small JSON files; `None` where it is missing or not understood.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(dir: &OwnedFd, name: &str) -> Option<T> {
    serde_json::from_slice(&dirs::read(dir, name, FILE_MAX).ok()??).ok()
}

/// Writes one of the small JSON files, whole or not at all.
pub(crate) fn write_json<T: Serialize>(dir: &OwnedFd, name: &str, value: &T) -> io::Result<()> {
    dirs::write(dir, name, &serde_json::to_vec(value)?)
}

fn node_id(root: &OwnedFd) -> io::Result<String> {
    for _ in 0..100 {
        let text = dirs::read(root, "node-id", 64)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        if text.len() == 8 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(text);
        }
        if !text.is_empty() {
            return Err(io::Error::other("the file node-id is not eight hex digits"));
        }
        let mut random = [0; 4];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let fresh = format!("{:08x}\n", u32::from_le_bytes(random));
        // Linked into place, so that of two openers one wins and both read the same.
        let temp = format!(".node-id-{}", std::process::id());
        dirs::write(root, &temp, fresh.as_bytes())?;
        let linked =
            rustix::fs::linkat(root, &*temp, root, "node-id", rustix::fs::AtFlags::empty());
        rustix::fs::unlinkat(root, &*temp, rustix::fs::AtFlags::empty())?;
        if let Err(error) = linked
            && error != rustix::io::Errno::EXIST
        {
            return Err(error.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(io::Error::other("the file node-id cannot be made"))
}
