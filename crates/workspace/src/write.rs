//! Writing a file: beside the old one, unnamed, and put in its place when it is whole.
//!
//! An upload that is cut leaves nothing and changes nothing; of two writers one wins whole. The
//! file that is replaced gives its mode and owner to the new one; other names of it (hard links)
//! keep the old contents.

use crate::error::Error;
use crate::path::FilePath;
use crate::quota::{Claim, Usage};
use crate::resolve;
use crate::{Result, Workspace};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use std::collections::hash_map::RandomState;
use std::ffi::{CStr, CString};
use std::hash::BuildHasher;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// How names begin that are there for a moment only.
pub(crate) const TEMPORARY: &[u8] = b".sandkeep-";
/// Mode of a new file.
const NEW: u32 = 0o644;
/// Bits of a mode that a file may have from here.
pub(crate) const MODE: u32 = 0o777;

/// A file that is being written. Dropped before [`Upload::finish`], it was never there.
pub struct Upload {
    dir: OwnedFd,
    name: CString,
    file: Fresh,
    claim: Claim,
    written: u64,
    limit: u64,
    old: Option<Stat>,
    owner: Option<(u32, u32)>,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Length, bytes.
    pub size: u64,
    /// Whether nothing was there before.
    pub created: bool,
}

impl Workspace {
    /// Begins to write a file, of `expected` bytes where that is known. A link is followed as
    /// long as it stays inside; the directory must be there. Blocks. Errors: also
    /// [`Error::TooLarge`], [`Error::Full`].
    pub fn write(&self, path: &FilePath, expected: Option<u64>) -> Result<Upload> {
        let place = resolve::place(&self.root, path, true)?;
        let (dir, name) = place.named(Error::IsDirectory("it is a directory"))?;
        self.write_at(dir, name, expected)
    }

    /// The same in an opened directory.
    pub(crate) fn write_at(
        &self,
        dir: OwnedFd,
        name: CString,
        expected: Option<u64>,
    ) -> Result<Upload> {
        let limit = self.limits.file_bytes;
        check_size(expected.unwrap_or(0), limit)?;
        let old = replaceable(&dir, &name)?;
        let mut claim = Claim::new(&self.ledger, old.as_ref().map_or(0, length));
        if old.is_none() {
            claim.entry()?;
        }
        claim.ahead(expected.unwrap_or(0))?;
        let file = Fresh::new(&dir)?;
        let owner = self.owner;
        Ok(Upload { dir, name, file, claim, written: 0, limit, old, owner })
    }
}

impl Upload {
    /// Writes further bytes. Blocks. Errors: [`Error::TooLarge`], [`Error::Full`],
    /// [`Error::DiskFull`].
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let more = bytes.len() as u64;
        check_size(self.written + more, self.limit)?;
        self.claim.bytes(more)?;
        self.written += more;
        while !bytes.is_empty() {
            match rustix::io::write(self.file.fd(), bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Puts the file in its place, once it is on the disk, and then its name. Blocks.
    pub fn finish(self) -> Result<Written> {
        rustix::fs::fdatasync(self.file.fd())?;
        // Opened as a place alone, it cannot be synced.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&self.dir, c".", flags, Mode::empty())?;
        let written = self.publish(None)?;
        rustix::fs::fsync(dir)?;
        Ok(written)
    }

    /// Puts the file in its place, with this mode where nothing is there yet or `None` was not
    /// meant.
    pub(crate) fn publish(self, mode: Option<u32>) -> Result<Written> {
        let kept = self.old.as_ref().map(|old| old.st_mode & MODE);
        let owner = self.old.as_ref().map(|old| (old.st_uid, old.st_gid)).or(self.owner);
        give(self.file.fd(), owner)?;
        let mode = Mode::from_raw_mode(mode.or(kept).unwrap_or(NEW));
        rustix::fs::fchmod(self.file.fd(), mode)?;
        let replaced = self.file.put(&self.dir, &self.name)?;
        let more = Usage { bytes: self.written, entries: 1 };
        let less = replaced.map_or(Usage::default(), |old| Usage { bytes: old, entries: 1 });
        self.claim.done(more, less);
        Ok(Written { size: self.written, created: replaced.is_none() })
    }

    pub(crate) fn file(&self) -> impl AsFd + '_ {
        self.file.fd()
    }
}

pub(crate) fn check_size(size: u64, max: u64) -> Result<()> {
    if size > max { Err(Error::TooLarge { max, actual: size }) } else { Ok(()) }
}

pub(crate) fn length(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// What a file there would replace. Errors where that is no plain file.
pub(crate) fn replaceable(dir: &OwnedFd, name: &CStr) -> Result<Option<Stat>> {
    let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        stat => stat?,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Some(stat)),
        FileType::Directory => Err(Error::IsDirectory("it is a directory")),
        // Put there since the path was followed.
        FileType::Symlink => Err(Error::Changed),
        _ => Err(Error::Denied("it is neither a plain file nor a directory")),
    }
}

/// Gives what is open to its owner. Where this may not be done, root inside is who runs this.
pub(crate) fn give(file: impl AsFd, owner: Option<(u32, u32)>) -> Result<()> {
    let Some((uid, gid)) = owner else { return Ok(()) };
    let own = rustix::fs::fstat(file.as_fd())?;
    if (own.st_uid, own.st_gid) == (uid, gid) {
        return Ok(());
    }
    match rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))) {
        Err(Errno::PERM) => Ok(()),
        done => Ok(done?),
    }
}

/// A file that has no name yet.
pub(crate) struct Fresh(OwnedFd);

impl Fresh {
    pub fn new(dir: &OwnedFd) -> Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(dir, c".", flags, Mode::from_raw_mode(0o600))?))
    }

    pub fn fd(&self) -> &OwnedFd {
        &self.0
    }

    fn link(&self, dir: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        rustix::fs::linkat(CWD, path, dir, name, AtFlags::SYMLINK_FOLLOW)
    }

    /// Gives it its name, in place of a file that has it; how long that one was.
    pub fn put(&self, dir: &OwnedFd, name: &CStr) -> Result<Option<u64>> {
        match self.link(dir, name) {
            Ok(()) => return Ok(None),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let temporary = temporary();
        self.link(dir, &temporary)?;
        let old = replaceable(dir, name);
        let put = old.and_then(|old| {
            rustix::fs::renameat(dir, &temporary, dir, name)?;
            Ok(old.as_ref().map(length))
        });
        if put.is_err() {
            // It was never there.
            let _ = rustix::fs::unlinkat(dir, &temporary, AtFlags::empty());
        }
        put
    }
}

/// A name that nobody else has.
pub(crate) fn temporary() -> CString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let random = RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed));
    let mut name = TEMPORARY.to_vec();
    name.extend_from_slice(format!("{random:016x}").as_bytes());
    CString::new(name).unwrap_or_default()
}
