//! Copying a directory of the machine into an image: links are copied, never followed, and
//! other file systems below it are left out.

use super::sink::{Meta, Sink};
use super::source::hex;
use super::{ImageError, Progress};
use crate::dirs;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Hashes what is read through it.
struct Tee<'a>(File, &'a mut Sha256);

impl Read for Tee<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(buffer)?;
        self.1.update(&buffer[..n]);
        Ok(n)
    }
}

/// Copies all below `root`. Gives the checksum and the number of device nodes left out.
pub(super) fn copy(
    root: OwnedFd,
    sink: &mut Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<(String, u64), ImageError> {
    let mut hash = Sha256::new();
    let mut skipped = 0;
    let mut links: HashMap<u64, PathBuf> = HashMap::new();
    let top = rustix::fs::fstat(&root).map_err(|e| ImageError::Source(e.into()))?;
    sink.dir(Path::new(""), meta(&top))?;
    let mut left = vec![PathBuf::new()];
    while let Some(here) = left.pop() {
        let dir = beneath(&root, &here)?;
        let mut names = dirs::names(&dir, usize::MAX).map_err(|e| at(&here, e))?;
        // Sorted, so that equal directories have equal checksums.
        names.sort();
        for name in names {
            let path = here.join(OsStr::from_bytes(name.to_bytes()));
            let stat = rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|e| at(&path, e.into()))?;
            let meta = meta(&stat);
            hash.update(path.as_os_str().as_bytes());
            hash.update([0]);
            hash.update(stat.st_mode.to_le_bytes());
            hash.update(meta.uid.to_le_bytes());
            hash.update(meta.gid.to_le_bytes());
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    sink.dir(&path, meta)?;
                    if stat.st_dev == top.st_dev {
                        left.push(path);
                    }
                }
                FileType::RegularFile => {
                    if stat.st_nlink > 1 {
                        if let Some(first) = links.get(&stat.st_ino) {
                            sink.hard_link(&path, first)?;
                            continue;
                        }
                        links.insert(stat.st_ino, path.clone());
                    }
                    let flags =
                        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                    let fd = rustix::fs::openat(&dir, &name, flags, Mode::empty())
                        .map_err(|e| at(&path, e.into()))?;
                    let size = u64::try_from(stat.st_size).unwrap_or(0);
                    hash.update(size.to_le_bytes());
                    sink.file(&path, meta, &mut Tee(fd.into(), &mut hash))?;
                }
                FileType::Symlink => {
                    let to = rustix::fs::readlinkat(&dir, &name, Vec::new())
                        .map_err(|e| at(&path, e.into()))?;
                    hash.update(to.to_bytes());
                    sink.symlink(&path, Path::new(OsStr::from_bytes(to.to_bytes())), meta)?;
                }
                FileType::Fifo => sink.fifo(&path, meta)?,
                FileType::CharacterDevice | FileType::BlockDevice => skipped += 1,
                _ => {}
            }
        }
        progress(Progress { read: sink.bytes, total: None, entries: sink.entries });
    }
    Ok((hex(&hash.finalize()), skipped))
}

fn beneath(root: &OwnedFd, path: &Path) -> Result<OwnedFd, ImageError> {
    let name = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(root, name, flags, Mode::empty(), resolve).map_err(|e| at(path, e.into()))
}

fn at(path: &Path, error: io::Error) -> ImageError {
    ImageError::Source(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn meta(stat: &Stat) -> Meta {
    Meta { mode: stat.st_mode & 0o7777, uid: stat.st_uid, gid: stat.st_gid, mtime: stat.st_mtime }
}
