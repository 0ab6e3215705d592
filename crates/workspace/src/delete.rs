//! Deleting.

use crate::change::ROOT;
use crate::error::Error;
use crate::path::FilePath;
use crate::quota::Usage;
use crate::resolve;
use crate::tree::{self, Entry, Go, Visit};
use crate::write::length;
use crate::{Result, Workspace};
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Names of one directory that are looked at in one pass.
const PASS: usize = 100_000;
/// Passes, for directories with more names, and for trees that others fill meanwhile.
const PASSES: usize = 100;

struct Delete {
    gone: Usage,
}

impl Delete {
    fn count(&mut self, stat: &Stat) {
        self.gone.entries += 1;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            self.gone.bytes = self.gone.bytes.saturating_add(length(stat));
        }
    }
}

impl Visit for Delete {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<Go> {
        if entry.kind() == FileType::Directory {
            return Ok(Go::On);
        }
        match rustix::fs::unlinkat(entry.dir, entry.name, AtFlags::empty()) {
            Ok(()) => self.count(entry.stat),
            // Another was quicker, or it has become a directory: the next pass sees.
            Err(Errno::NOENT | Errno::ISDIR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Go::Over)
    }

    fn leave(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> Result<()> {
        match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Ok(()) => self.gone.entries += 1,
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl Workspace {
    /// Deletes a file, a link, or, `recursive`, a directory with all that is in it. A link is
    /// deleted, not followed. `force`: nothing there is fine. Blocks. Errors:
    /// [`Error::IsDirectory`] for a directory without `recursive`, [`Error::Denied`] for
    /// `/workspace` itself.
    pub fn delete(&self, path: &FilePath, recursive: bool, force: bool) -> Result<()> {
        if path.is_root() {
            return Err(ROOT);
        }
        let deleted = resolve::place(&self.root, path, false)
            .and_then(|place| place.named(ROOT))
            .and_then(|(dir, name)| self.delete_at(&dir, &name, recursive));
        match deleted {
            Err(Error::NotFound) if force => Ok(()),
            deleted => deleted,
        }
    }

    pub(crate) fn delete_at(&self, dir: &OwnedFd, name: &CStr, recursive: bool) -> Result<()> {
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
            let mut delete = Delete { gone: Usage::default() };
            delete.count(&stat);
            self.ledger.changed(Usage::default(), delete.gone);
            return Ok(());
        }
        if !recursive {
            return Err(Error::IsDirectory("it is a directory; delete it with recursive"));
        }
        let mut delete = Delete { gone: Usage::default() };
        let deleted = delete_tree(dir.as_fd(), name, &mut delete);
        self.ledger.changed(Usage::default(), delete.gone);
        deleted
    }
}

/// Deletes a directory and all in it, which others may go on filling: then it ends with
/// [`Error::NotEmpty`] after a number of passes.
fn delete_tree(dir: BorrowedFd<'_>, name: &CStr, delete: &mut Delete) -> Result<()> {
    for pass in 0..PASSES {
        let inside = match tree::open_dir(dir, name) {
            Err(Error::NotFound) if pass > 0 => return Ok(()),
            inside => inside?,
        };
        match tree::walk(&inside, PASS, delete) {
            Ok(_) | Err(Error::Changed | Error::NotFound) => {}
            Err(error) => return Err(error),
        }
        match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Ok(()) => {
                delete.gone.entries += 1;
                return Ok(());
            }
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::NotEmpty)
}
