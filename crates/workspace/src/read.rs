//! Looking at a file, and reading its bytes.

use crate::error::Error;
use crate::info;
use crate::path::FilePath;
use crate::resolve::{self, kind, reopen};
use crate::{Result, Workspace};
use rustix::fs::{AtFlags, FileType, OFlags, Stat};
use std::os::fd::OwnedFd;
use types::FileInfo;

/// Why something is not read.
const NOT_PLAIN: Error = Error::Denied("it is neither a plain file nor a directory");

/// A file that is being read: always the same one, whatever its name means by now.
pub struct Reading {
    file: OwnedFd,
    size: u64,
    tag: String,
}

impl Reading {
    /// Its length when it was opened, bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Differs where the contents may differ; printable, without quotes.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// At most `length` bytes from `offset` on; none at the end. Blocks. Errors:
    /// [`Error::Changed`] where the file has become shorter than it was.
    pub fn at(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let left = self.size.saturating_sub(offset);
        let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match rustix::io::pread(&self.file, &mut bytes[filled..], offset + filled as u64) {
                Ok(0) => return Err(Error::Changed),
                Ok(n) => filled += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(bytes)
    }
}

impl Workspace {
    /// Opens a file for reading; links are followed as long as they stay inside. Never waits:
    /// FIFOs, sockets and devices are refused before they are opened. Blocks.
    pub fn read(&self, path: &FilePath) -> Result<Reading> {
        let place = resolve::open(&self.root, path)?;
        reading(place)
    }

    /// What is at the path; a link is told of, not followed. Blocks.
    pub fn stat(&self, path: &FilePath) -> Result<FileInfo> {
        let place = resolve::place(&self.root, path, false)?;
        let stat = match &place.name {
            Some(name) => rustix::fs::statat(&place.dir, name, AtFlags::SYMLINK_NOFOLLOW)?,
            None => rustix::fs::fstat(&place.dir)?,
        };
        let absolute = path.absolute();
        let name = path.names().last().map_or(&b"workspace"[..], |name| name.as_bytes());
        Ok(info::of(&stat, &absolute, if path.is_root() { b"." } else { name }, name))
    }

    /// Whether something is at the path; links are followed. Errors: [`Error::Denied`] where it
    /// leads out. Blocks.
    pub fn exists(&self, path: &FilePath) -> Result<bool> {
        match resolve::open(&self.root, path) {
            Ok(_) => Ok(true),
            Err(Error::NotFound | Error::NotDirectory) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Reads what was opened as a place.
pub(crate) fn reading(place: OwnedFd) -> Result<Reading> {
    match kind(&place)? {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Error::IsDirectory("it is a directory")),
        _ => return Err(NOT_PLAIN),
    }
    let file = reopen(&place, OFlags::RDONLY)?;
    let stat = rustix::fs::fstat(&file)?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    Ok(Reading { file, size, tag: tag(&stat) })
}

fn tag(stat: &Stat) -> String {
    let (seconds, nanos) = (stat.st_mtime, stat.st_mtime_nsec);
    format!("{:x}-{:x}-{seconds:x}.{nanos:x}", stat.st_ino, stat.st_size)
}
