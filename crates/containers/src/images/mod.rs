//! Images: root file systems below `images/`, each whole or not there at all.

mod error;
mod host;
mod import;
mod sink;
mod source;
mod tree;

pub use error::ImageError;

use crate::layout::Layout;
use crate::{Error, dirs, fail};
use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// The image that is made of the machine's own `/usr`.
pub const HOST: &str = "host";
/// Longest name of an image, bytes.
pub const NAME_MAX: usize = 128;
/// Largest `image.json`, bytes.
const INFO_MAX: u64 = 1 << 20;

/// What is known of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageInfo {
    /// Its name.
    pub name: String,
    /// SHA-256 in hex: of the archive as it was read, or of the directory's content.
    pub sha256: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
    /// Device nodes of the source that were left out.
    pub skipped_devices: u64,
    /// When it was imported, ms since the epoch.
    pub imported_at_ms: i64,
    /// Environment that its commands start with; `PATH` and `HOME` where it names them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// How far an import is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the source that were read.
    pub read: u64,
    /// Bytes of the source, where that is known.
    pub total: Option<u64>,
    /// Files, directories and links made.
    pub entries: u64,
}

/// The images of a data directory.
#[derive(Clone)]
pub struct Images {
    layout: Arc<Layout>,
}

/// An image for one start: its root directory and what its commands start with.
pub(crate) struct Opened {
    /// Name of its directory below `images/`.
    pub dir_name: String,
    pub rootfs: OwnedFd,
    pub host: bool,
    pub env: BTreeMap<String, String>,
}

impl Images {
    /// The images of this data directory, without an engine: for a command line that has the
    /// data directory for itself.
    pub fn open(data_dir: &Path) -> Result<Self, Error> {
        Ok(Self::new(Arc::new(Layout::open(data_dir)?)))
    }

    pub(crate) fn new(layout: Arc<Layout>) -> Self {
        Self { layout }
    }

    /// Imports a root file system: a tar archive (plain, gzip or zstd) or a directory. Blocks.
    /// A failure leaves nothing behind.
    pub fn import(
        &self,
        name: &str,
        source: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImageInfo, ImageError> {
        check_name(name)?;
        if self.dir(name).is_ok() {
            return Err(ImageError::Exists(name.to_owned()));
        }
        let unique = (std::process::id(), fail::now_ms());
        let temp = format!(".import-{name}-{:x}-{:x}", unique.0, unique.1);
        let dir = dirs::ensure(&self.layout.images, &temp, 0o700).map_err(ImageError::storing)?;
        let made = import::import(dir.as_fd(), name, source, progress).and_then(|info| {
            let text = serde_json::to_vec(&info).map_err(|e| ImageError::storing(e.into()))?;
            dirs::write(&dir, "image.json", &text).map_err(ImageError::storing)?;
            rustix::fs::syncfs(&dir).map_err(|e| ImageError::storing(e.into()))?;
            Ok(info)
        });
        let info = match made {
            Ok(info) => info,
            Err(error) => {
                let _ = self.layout.trash.throw(&self.layout.images, &temp);
                return Err(error);
            }
        };
        let images = &self.layout.images;
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        if let Err(error) = rustix::fs::renameat_with(images, &*temp, images, name, flags) {
            let _ = self.layout.trash.throw(images, &temp);
            return Err(match error {
                rustix::io::Errno::EXIST => ImageError::Exists(name.to_owned()),
                other => ImageError::storing(other.into()),
            });
        }
        Ok(info)
    }

    /// The imported images, by name; `host` is not among them.
    pub fn list(&self) -> Result<Vec<ImageInfo>, Error> {
        let names = dirs::names(&self.layout.images, usize::MAX);
        let names = names.map_err(fail::step("read the images"))?;
        let mut all: Vec<_> = names
            .iter()
            .filter_map(|name| name.to_str().ok())
            .filter(|name| check_name(name).is_ok())
            .filter_map(|name| self.info(name).ok())
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// What is known of one; [`Error::ImageNotFound`] where there is none.
    pub fn info(&self, name: &str) -> Result<ImageInfo, Error> {
        let missing = || Error::ImageNotFound(name.to_owned());
        let dir = self.dir(name).map_err(|_| missing())?;
        let text = dirs::read(dir, "image.json", INFO_MAX)
            .map_err(fail::step("read the image's description"))?
            .ok_or_else(missing)?;
        let broken = |e| Error::Failed(format!("the description of image {name:?} is broken: {e}"));
        serde_json::from_slice(&text).map_err(broken)
    }

    /// Whether there is an image of this name.
    pub fn exists(&self, name: &str) -> bool {
        name == HOST || self.dir(name).is_ok()
    }

    /// Removes an imported image. Refused with [`Error::ImageInUse`] while an instance runs on
    /// it, whichever process started that.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let _lock = self.lock()?;
        self.dir(name).map_err(|_| Error::ImageNotFound(name.to_owned()))?;
        if self.layout.image_dirs_in_use().contains(name) {
            return Err(Error::ImageInUse(name.to_owned()));
        }
        let gone = self.layout.trash.throw(&self.layout.images, name);
        gone.map_err(fail::step("remove the image"))
    }

    /// Opens an image for a start, having called `note` with its directory's name while
    /// nobody can remove it.
    pub(crate) fn open_for(
        &self,
        name: &str,
        note: impl FnOnce(&str) -> Result<(), Error>,
    ) -> Result<Opened, Error> {
        let _lock = self.lock()?;
        let host = name == HOST;
        let dir_name = if host { host::ensure(&self.layout)? } else { name.to_owned() };
        let missing = || Error::ImageNotFound(name.to_owned());
        if !host {
            check_name(name).map_err(|_| missing())?;
        }
        let rootfs = dirs::open_at(&self.layout.images, &*dir_name)
            .and_then(|dir| dirs::open_at(dir, "rootfs"))
            .map_err(|_| missing())?;
        let env = if host { BTreeMap::new() } else { self.info(name)?.env };
        note(&dir_name)?;
        Ok(Opened { dir_name, rootfs, host, env })
    }

    fn dir(&self, name: &str) -> Result<OwnedFd, ImageError> {
        check_name(name)?;
        dirs::open_at(&self.layout.images, name).map_err(ImageError::storing)
    }

    /// Excludes, over processes too, that an image goes while an instance starts on it.
    fn lock(&self) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o600);
        let file = rustix::fs::openat(&self.layout.images, ".lock", flags, mode)
            .and_then(|fd| {
                rustix::fs::flock(&fd, FlockOperation::LockExclusive)?;
                Ok(fd)
            })
            .map_err(|e| fail::step("lock the images")(e.into()))?;
        Ok(file)
    }
}

/// Names of imported images: `[a-z0-9][a-z0-9._-]{0,127}`, not `host`.
pub(crate) fn check_name(name: &str) -> Result<(), ImageError> {
    let rule = |text: String| Err(ImageError::Name(text));
    if name == HOST {
        return rule("the name host is taken by the machine's own image".to_owned());
    }
    if name.is_empty() || name.len() > NAME_MAX {
        return rule(format!(
            "image names have 1 to {NAME_MAX} characters, this one has {}",
            name.len()
        ));
    }
    for (i, c) in name.chars().enumerate() {
        let plain = c.is_ascii_lowercase() || c.is_ascii_digit();
        if !(plain || (i > 0 && matches!(c, '.' | '_' | '-'))) {
            return rule(format!(
                "image names match [a-z0-9][a-z0-9._-]*, {c:?} at position {i} does not"
            ));
        }
    }
    Ok(())
}
