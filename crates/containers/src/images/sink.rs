//! Writing an image's files: nothing that an archive says can land outside its root.
//!
//! Every path is resolved by the kernel as if the image were the root directory
//! (`RESOLVE_IN_ROOT`), so links in the archive lead nowhere else.

use super::ImageError;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Owner, mode and time of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meta {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: i64,
}

/// Makes a directory that everybody inside may enter, whatever the server's umask.
fn make_dir(parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(0o755);
    rustix::fs::mkdirat(parent, name, mode)?;
    rustix::fs::chmodat(parent, name, mode, AtFlags::empty())
}

/// Where an image is written.
pub(super) struct Sink {
    root: OwnedFd,
    /// Only root may give files away; else all belong to the caller.
    chown: bool,
    last: Option<(PathBuf, OwnedFd)>,
    /// Directories get mode and time last, so that read-only ones can be filled.
    dirs: Vec<(PathBuf, Meta)>,
    pub entries: u64,
    pub bytes: u64,
}

impl Sink {
    pub fn new(root: OwnedFd) -> Self {
        let chown = rustix::process::geteuid().is_root();
        Self { root, chown, last: None, dirs: Vec::new(), entries: 0, bytes: 0 }
    }

    pub fn dir(&mut self, path: &Path, meta: Meta) -> Result<(), ImageError> {
        let clean = clean(path)?;
        self.open_dir(&clean, path)?;
        self.entries += 1;
        self.dirs.push((clean, meta));
        Ok(())
    }

    pub fn file(&mut self, path: &Path, meta: Meta, data: &mut dyn Read) -> Result<(), ImageError> {
        let (dir, name) = self.place(path)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd =
            rustix::fs::openat(&dir, &*name, flags, Mode::from_raw_mode(0o600)).map_err(storing)?;
        let mut file = File::from(fd);
        self.bytes += copy(data, &mut file)?;
        self.own(&file, meta)?;
        // After the owner: a change of owner takes setuid away.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(meta.mode & 0o7777)).map_err(storing)?;
        rustix::fs::futimens(&file, &times(meta)).map_err(storing)?;
        self.entries += 1;
        Ok(())
    }

    pub fn symlink(&mut self, path: &Path, to: &Path, meta: Meta) -> Result<(), ImageError> {
        let (dir, name) = self.place(path)?;
        rustix::fs::symlinkat(to, &dir, &*name).map_err(storing)?;
        if self.chown {
            let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(&dir, &*name, Some(uid), Some(gid), flags).map_err(storing)?;
        }
        self.entries += 1;
        Ok(())
    }

    pub fn hard_link(&mut self, path: &Path, to: &Path) -> Result<(), ImageError> {
        let target = clean(to).map_err(|_| {
            ImageError::hostile(path, format!("it is a hard link to {:?}", to.to_string_lossy()))
        })?;
        let (parent, target_name) = split(&target)
            .ok_or_else(|| ImageError::hostile(path, "it is a hard link to the root"))?;
        let missing = |_| ImageError::hostile(path, "it is a hard link to a missing file");
        let from = self.resolve(&parent).map_err(missing)?;
        let (dir, name) = self.place(path)?;
        rustix::fs::linkat(&from, &*target_name, &dir, &*name, AtFlags::empty()).map_err(|e| {
            match e {
                Errno::NOENT | Errno::PERM => missing(e),
                other => storing(other),
            }
        })?;
        self.entries += 1;
        Ok(())
    }

    pub fn fifo(&mut self, path: &Path, meta: Meta) -> Result<(), ImageError> {
        let (dir, name) = self.place(path)?;
        let mode = Mode::from_raw_mode(meta.mode & 0o777);
        rustix::fs::mknodat(&dir, &*name, FileType::Fifo, mode, 0).map_err(storing)?;
        self.entries += 1;
        Ok(())
    }

    /// Makes the directories that every instance needs, and gives all directories their mode.
    pub fn finish(mut self) -> Result<(u64, u64), ImageError> {
        for name in ["proc", "sys", "dev", "tmp", "run", "etc", "workspace"] {
            match make_dir(&self.root, OsStr::new(name)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(storing(error)),
            }
        }
        for (path, meta) in std::mem::take(&mut self.dirs).into_iter().rev() {
            // Replaced by something else later in the archive: nothing to set.
            let Ok(fd) = self.resolve(&path) else { continue };
            self.own(&fd, meta)?;
            rustix::fs::fchmod(&fd, Mode::from_raw_mode(meta.mode & 0o7777)).map_err(storing)?;
            rustix::fs::futimens(&fd, &times(meta)).map_err(storing)?;
        }
        Ok((self.entries, self.bytes))
    }

    fn own(&self, fd: impl AsFd, meta: Meta) -> Result<(), ImageError> {
        if self.chown {
            let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
            rustix::fs::fchown(fd, Some(uid), Some(gid)).map_err(storing)?;
        }
        Ok(())
    }

    /// The directory that an entry goes into, and its name there, which is free now.
    fn place(&mut self, path: &Path) -> Result<(OwnedFd, OsString), ImageError> {
        let clean = clean(path)?;
        let (parent, name) =
            split(&clean).ok_or_else(|| ImageError::hostile(path, "it would replace the root"))?;
        let dir = self.open_dir(&parent, path)?;
        match rustix::fs::unlinkat(&dir, &*name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => {
                rustix::fs::unlinkat(&dir, &*name, AtFlags::REMOVEDIR).map_err(|_| {
                    ImageError::hostile(path, "it would replace a directory that is not empty")
                })?;
            }
            Err(error) => return Err(storing(error)),
        }
        Ok((dir, name))
    }

    /// Opens a directory of the image, made where it is missing.
    fn open_dir(&mut self, path: &Path, entry: &Path) -> Result<OwnedFd, ImageError> {
        if let Some((last, fd)) = &self.last
            && last == path
        {
            return fd.try_clone().map_err(ImageError::storing);
        }
        let fd = match self.resolve(path) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => self.make_dirs(path, entry)?,
            Err(Errno::NOTDIR) => {
                return Err(ImageError::hostile(entry, "a file stands where a directory must"));
            }
            Err(Errno::LOOP) => {
                return Err(ImageError::hostile(entry, "links in its path go in a circle"));
            }
            Err(Errno::NAMETOOLONG) => {
                return Err(ImageError::hostile(entry, "its path is too long"));
            }
            Err(error) => return Err(storing(error)),
        };
        let copy = fd.try_clone().map_err(ImageError::storing)?;
        self.last = Some((path.to_owned(), copy));
        Ok(fd)
    }

    fn make_dirs(&self, path: &Path, entry: &Path) -> Result<OwnedFd, ImageError> {
        let mut here = PathBuf::new();
        let mut fd = self.root.try_clone().map_err(ImageError::storing)?;
        for part in path.components() {
            here.push(part);
            fd = match self.resolve(&here) {
                Ok(next) => next,
                Err(Errno::NOENT) => {
                    make_dir(&fd, part.as_os_str()).map_err(|e| match e {
                        Errno::EXIST => {
                            ImageError::hostile(entry, "a link to nowhere is in its path")
                        }
                        other => storing(other),
                    })?;
                    self.resolve(&here).map_err(storing)?
                }
                Err(error) => return Err(storing(error)),
            };
        }
        Ok(fd)
    }

    fn resolve(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve)
    }
}

/// A path below the root: `/` at its head and `.` are dropped, `..` is refused.
pub(super) fn clean(path: &Path) -> Result<PathBuf, ImageError> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir | Component::RootDir => {}
            _ => return Err(ImageError::hostile(path, "its path has \"..\"")),
        }
    }
    Ok(clean)
}

fn split(path: &Path) -> Option<(PathBuf, OsString)> {
    let name: &OsStr = path.file_name()?;
    Some((path.parent().unwrap_or(Path::new("")).to_owned(), name.to_owned()))
}

/// Copies, telling the reader's faults from the writer's.
fn copy(from: &mut dyn Read, to: &mut File) -> Result<u64, ImageError> {
    use io::Write;
    let mut buffer = vec![0; 256 * 1024];
    let mut total = 0;
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ImageError::Source(error)),
        };
        to.write_all(&buffer[..n]).map_err(ImageError::storing)?;
        total += n as u64;
    }
}

fn times(meta: Meta) -> Timestamps {
    let time = Timespec { tv_sec: meta.mtime, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

fn storing(error: Errno) -> ImageError {
    ImageError::storing(error.into())
}
