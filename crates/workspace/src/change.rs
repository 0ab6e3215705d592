//! Making directories, moving.

use crate::error::Error;
use crate::path::FilePath;
use crate::quota::{Claim, Usage};
use crate::resolve::{self, kind};
use crate::write::{MODE, give, length};
use crate::{Result, Workspace};
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::OwnedFd;

/// The root is what it is.
pub(crate) const ROOT: Error =
    Error::Denied("/workspace itself can neither be deleted, moved nor replaced");

impl Workspace {
    /// Makes a directory; `recursive` makes those above it too and takes one that is there.
    /// Blocks. Errors: [`Error::Exists`], [`Error::NotFound`], [`Error::NotDirectory`],
    /// [`Error::Full`].
    pub fn mkdir(&self, path: &FilePath, recursive: bool) -> Result<()> {
        if !recursive {
            let place = resolve::place(&self.root, path, false)?;
            let (dir, name) = place.named(Error::Exists)?;
            let mut claim = Claim::new(&self.ledger, 0);
            if rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                return Err(Error::Exists);
            }
            claim.entry()?;
            self.make_dir(&dir, &name, 0o755)?;
            claim.done(Usage { bytes: 0, entries: 1 }, Usage::default());
            return Ok(());
        }
        let whole = path.names().len();
        for depth in 1..=whole {
            let upper = path.upper(depth);
            match resolve::open(&self.root, &upper) {
                Ok(found) if kind(&found)? == FileType::Directory => continue,
                Ok(_) if depth == whole => return Err(Error::Exists),
                Ok(_) => return Err(Error::NotDirectory),
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
            match self.mkdir(&upper, false) {
                // Somebody else was as quick.
                Ok(()) | Err(Error::Exists) => {}
                Err(error) => return Err(error),
            }
        }
        match kind(resolve::open(&self.root, path)?)? {
            FileType::Directory => Ok(()),
            _ => Err(Error::Exists),
        }
    }

    /// Makes a directory that belongs to the workspace's owner, and opens it.
    pub(crate) fn make_dir(&self, dir: &OwnedFd, name: &CStr, mode: u32) -> Result<OwnedFd> {
        rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o700))?;
        let made = crate::tree::open_dir(dir, name)?;
        give(&made, self.owner)?;
        rustix::fs::fchmod(&made, Mode::from_raw_mode(mode & MODE))?;
        Ok(made)
    }

    /// Moves a file, a link or a directory; a link is moved, not followed. A file or an empty
    /// directory of the same kind that is there is replaced where `overwrite`. Blocks. Errors:
    /// [`Error::NotDirectory`] for a directory onto a file, [`Error::IsDirectory`] for a file
    /// onto a directory, [`Error::NotEmpty`], [`Error::Exists`], [`Error::Invalid`] for a
    /// directory into itself.
    pub fn rename(&self, from: &FilePath, to: &FilePath, overwrite: bool) -> Result<()> {
        let (from_dir, from) = resolve::place(&self.root, from, false)?.named(ROOT)?;
        let target = |error: Error| Error::Target { path: to.clone(), source: Box::new(error) };
        let place = resolve::place(&self.root, to, false).and_then(|place| place.named(ROOT));
        let (to_dir, to) = place.map_err(target)?;
        let old = match rustix::fs::statat(&to_dir, &to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        let moving = rustix::fs::statat(&from_dir, &from, AtFlags::SYMLINK_NOFOLLOW)?;
        let flags = if overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match rustix::fs::renameat_with(&from_dir, &from, &to_dir, &to, flags) {
            Err(Errno::INVAL) => {
                return Err(Error::Invalid("a directory cannot be moved into itself"));
            }
            // Some file systems say so of a directory that is not empty.
            Err(Errno::EXIST) if overwrite => return Err(target(Error::NotEmpty)),
            Err(error @ (Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR)) => {
                return Err(target(error.into()));
            }
            done => done?,
        }
        // Two names of one file stay as they are.
        let same =
            |old: &rustix::fs::Stat| (old.st_dev, old.st_ino) == (moving.st_dev, moving.st_ino);
        if let Some(old) = old.filter(|old| !same(old)) {
            let plain = FileType::from_raw_mode(old.st_mode) == FileType::RegularFile;
            let bytes = if plain { length(&old) } else { 0 };
            self.ledger.changed(Usage::default(), Usage { bytes, entries: 1 });
        }
        Ok(())
    }
}
