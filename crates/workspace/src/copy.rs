//! Copying files and trees.
//!
//! A tree is copied beside its new place under a name of the moment, and put there when it is
//! whole. Links are copied as links, FIFOs and the like are refused.

use crate::change::ROOT;
use crate::error::Error;
use crate::path::FilePath;
use crate::quota::{Claim, Usage};
use crate::read::{Reading, reading};
use crate::resolve::{self, kind};
use crate::tree::{self, Entry, Go, Visit, id};
use crate::write::{MODE, replaceable, temporary};
use crate::{Result, Workspace};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Bytes that are copied at once.
const PIECE: usize = 1 << 20;
/// Deepest tree.
const DEPTH: usize = 256;

impl Workspace {
    /// Copies a file or, `recursive`, a directory; a link that is named itself is followed. A
    /// file that is there is replaced where `overwrite`, a directory never. Blocks. Errors:
    /// [`Error::IsDirectory`] for a directory without `recursive` and for a file onto a
    /// directory, [`Error::NotDirectory`] for a directory onto a file, [`Error::Exists`],
    /// [`Error::Invalid`] for a directory into itself, [`Error::Full`].
    pub fn copy(
        &self,
        from: &FilePath,
        to: &FilePath,
        recursive: bool,
        overwrite: bool,
    ) -> Result<()> {
        let at_target = |error: Error| Error::Target { path: to.clone(), source: Box::new(error) };
        let source = resolve::open(&self.root, from)?;
        let target = resolve::place(&self.root, to, true).map_err(at_target)?;
        if kind(&source)? == FileType::Directory {
            if !recursive {
                return Err(Error::IsDirectory("it is a directory; copy it with recursive"));
            }
            self.not_inside(&source, &target.dir)?;
            let (dir, name) = target.named(Error::Exists).map_err(at_target)?;
            match rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => {}
                Ok(there) if FileType::from_raw_mode(there.st_mode) == FileType::Directory => {
                    return Err(at_target(Error::Exists));
                }
                Ok(_) => return Err(at_target(Error::NotDirectory)),
                Err(error) => return Err(at_target(error.into())),
            }
            return self.copy_tree(&source, &dir, &name);
        }
        let source_id = id(&source)?;
        let source = reading(source)?;
        let (dir, name) = target.named(ROOT).map_err(at_target)?;
        match replaceable(&dir, &name).map_err(at_target)? {
            Some(_) if !overwrite => return Err(at_target(Error::Exists)),
            Some(there) if (there.st_dev, there.st_ino) == source_id => return Ok(()),
            _ => {}
        }
        self.copy_file(&source, dir, name)
    }

    fn copy_file(&self, source: &Reading, dir: OwnedFd, name: CString) -> Result<()> {
        let mode = rustix::fs::fstat(source.file())?.st_mode & MODE;
        let mut upload = self.write_at(dir, name, Some(source.size()))?;
        let mut done = 0;
        loop {
            let bytes = source.at(done, PIECE)?;
            if bytes.is_empty() {
                break;
            }
            upload.write(&bytes)?;
            done += bytes.len() as u64;
        }
        upload.publish(Some(mode)).map(drop)
    }

    fn copy_tree(&self, source: &OwnedFd, dir: &OwnedFd, name: &CStr) -> Result<()> {
        // What may not be read is not begun.
        let source = tree::open_dir(source, c".")?;
        let mut claim = Claim::new(&self.ledger, 0);
        claim.entry()?;
        let beside = temporary();
        let mode = rustix::fs::fstat(&source)?.st_mode;
        let top = self.make_dir(dir, &beside, mode)?;
        claim.done(Usage { bytes: 0, entries: 1 }, Usage::default());
        let most = usize::try_from(self.limits.entries).unwrap_or(usize::MAX);
        let mut copy = Copy { workspace: self, way: vec![top] };
        let copied = match tree::walk(&source, most, &mut copy) {
            Ok(true) => {
                let flags = RenameFlags::NOREPLACE;
                rustix::fs::renameat_with(dir, &beside, dir, name, flags).map_err(Error::from)
            }
            Ok(false) => Err(Error::Full { what: "entries", limit: self.limits.entries }),
            Err(error) => Err(error),
        };
        if copied.is_err()
            && let Err(error) = self.delete_at(dir, &beside, true)
        {
            tracing::warn!(%error, "half a copy could not be deleted");
        }
        copied
    }

    /// Refuses a place that lies in `source`, found by going up.
    fn not_inside(&self, source: &OwnedFd, place: &OwnedFd) -> Result<()> {
        let (source, root) = (id(source)?, id(&self.root)?);
        let mut here = tree::open_dir(place, c".")?;
        for _ in 0..=65_536 {
            let at = id(&here)?;
            if at == source {
                return Err(Error::Invalid("a directory cannot be copied into itself"));
            }
            if at == root {
                return Ok(());
            }
            here = tree::open_dir(&here, c"..")?;
            if id(&here)? == at {
                break;
            }
        }
        Err(Error::Changed)
    }
}

struct Copy<'a> {
    workspace: &'a Workspace,
    /// The new directories, from the top down.
    way: Vec<OwnedFd>,
}

impl Visit for Copy<'_> {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<Go> {
        let workspace = self.workspace;
        let here = self.way.last().ok_or(Error::Changed)?;
        let mut claim = Claim::new(&workspace.ledger, 0);
        match entry.kind() {
            FileType::Directory if self.way.len() > DEPTH => {
                return Err(Error::Malformed("the tree is too deep to be copied"));
            }
            FileType::Directory => {
                claim.entry()?;
                let made = workspace.make_dir(here, entry.name, entry.stat.st_mode)?;
                self.way.push(made);
            }
            FileType::RegularFile => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let source = rustix::fs::openat(entry.dir, entry.name, flags, Mode::empty())?;
                let source = reading(source)?;
                workspace.copy_file(&source, here.try_clone()?, entry.name.to_owned())?;
                return Ok(Go::Over);
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(entry.dir, entry.name, Vec::new())?;
                claim.entry()?;
                rustix::fs::symlinkat(&target, here, entry.name)?;
            }
            _ => return Err(Error::Denied("FIFOs, sockets and devices are not copied")),
        }
        claim.done(Usage { bytes: 0, entries: 1 }, Usage::default());
        Ok(Go::On)
    }

    fn leave(&mut self, _: BorrowedFd<'_>, _: &CStr) -> Result<()> {
        self.way.pop();
        Ok(())
    }
}
