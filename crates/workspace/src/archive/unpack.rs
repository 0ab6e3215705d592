//! Unpacking a tar archive that may be hostile.
//!
//! Each entry is held against the rules by its text, and then made through the same opens beneath
//! the workspace as everything else: a link that an earlier entry made cannot lead the next one
//! out. The first entry that is refused ends it; what was unpacked before stays.

use super::pax::Before;
use crate::error::Error;
use crate::path::FilePath;
use crate::quota::{Claim, Usage};
use crate::resolve::{self, kind, stays_inside};
use crate::write::{MODE, length, temporary};
use crate::{Result, Workspace};
use rustix::fs::{AtFlags, FileType, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use tar::{Entry, EntryType};

/// Bytes that are written at once.
const PIECE: usize = 256 << 10;

/// What was unpacked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Entries.
    pub entries: u64,
    /// Bytes of files.
    pub bytes: u64,
}

impl Workspace {
    /// Unpacks a tar archive in a directory that is there. Files replace files and links, and
    /// missing directories are made; modes and times of files are kept, owners are not. Blocks
    /// as long as `from` does. Errors: [`Error::Entry`] of the entry that is refused: one that
    /// is absolute or has `..` in its name, a link to outside, a device, a FIFO, one that does
    /// not fit; [`Error::BrokeOff`]; [`Error::Malformed`] for what is no archive.
    pub fn unpack(&self, path: &FilePath, from: impl Read) -> Result<Unpacked> {
        if kind(resolve::open(&self.root, path)?)? != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        let mut unpacked = Unpacked::default();
        let mut archive = tar::Archive::new(from);
        let mut before = Before::default();
        for entry in archive.entries().map_err(broke)?.raw(true) {
            let mut entry = entry.map_err(broke)?;
            let header = before.name.clone().unwrap_or_else(|| entry.path_bytes().into_owned());
            let of = |error: Error| match error {
                Error::BrokeOff => error,
                error => error.of_entry(&header),
            };
            if before.read(&mut entry).map_err(of)? {
                continue;
            }
            let link = before.link.take().or_else(|| entry.link_name_bytes().map(Into::into));
            before = Before::default();
            let made = self.entry(path, &header, link.as_deref(), &mut entry).map_err(of)?;
            unpacked.entries += u64::from(made.is_some());
            unpacked.bytes += made.unwrap_or(0);
        }
        Ok(unpacked)
    }

    /// Makes one entry; how many bytes it has. `None`: it is the directory itself.
    fn entry<R: Read>(
        &self,
        base: &FilePath,
        name: &[u8],
        link: Option<&[u8]>,
        entry: &mut Entry<'_, R>,
    ) -> Result<Option<u64>> {
        let Some(path) = below(base, name)? else { return Ok(None) };
        let kind = entry.header().entry_type();
        if kind == EntryType::Directory || (kind.is_file() && name.ends_with(b"/")) {
            self.mkdir(&path, true)?;
            self.set_mode(&path, entry.header().mode().unwrap_or(0o755))?;
            return Ok(Some(0));
        }
        let link = |what| link.ok_or(Error::Malformed(what));
        match kind {
            EntryType::Regular | EntryType::Continuous => self.file(&path, entry).map(Some),
            EntryType::Symlink => {
                let target = link("a symbolic link without a target")?;
                if !stays_inside(path.names(), target) {
                    return Err(Error::Denied("a symbolic link that leads out of /workspace"));
                }
                let target = CString::new(target)
                    .map_err(|_| Error::Malformed("a link's target has a NUL byte"))?;
                let (dir, name) = self.parent(&path)?;
                self.put(&dir, &name, 0, |beside| {
                    Ok(rustix::fs::symlinkat(&target, &dir, beside)?)
                })?;
                Ok(Some(0))
            }
            EntryType::Link => {
                let target = link("a hard link without a target")?;
                let out = Error::Denied("a hard link that leads out of the archive");
                let target = match below(base, target) {
                    Ok(Some(target)) => target,
                    Ok(None) | Err(_) => return Err(out),
                };
                let (from, old) = resolve::place(&self.root, &target, false)?.named(out)?;
                let stat = rustix::fs::statat(&from, &old, AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    return Err(Error::Denied("a hard link to what is no plain file"));
                }
                let (dir, name) = self.parent(&path)?;
                self.put(&dir, &name, length(&stat), |beside| {
                    Ok(rustix::fs::linkat(&from, &old, &dir, beside, AtFlags::empty())?)
                })?;
                Ok(Some(0))
            }
            EntryType::Char | EntryType::Block => Err(Error::Denied("a device")),
            EntryType::Fifo => Err(Error::Denied("a FIFO")),
            EntryType::GNUSparse => {
                Err(Error::Invalid("it has holes (sparse), which is not taken"))
            }
            _ => Err(Error::Invalid("an entry of a kind that is not known")),
        }
    }

    fn file<R: Read>(&self, path: &FilePath, entry: &mut Entry<'_, R>) -> Result<u64> {
        let (dir, name) = self.parent(path)?;
        let old = at(&dir, &name)?.map(|stat| FileType::from_raw_mode(stat.st_mode));
        if old == Some(FileType::Symlink) {
            // It is replaced, not written through.
            self.delete_at(&dir, &name, false)?;
        }
        let size = entry.size();
        let mut upload = self.write_at(dir, name, Some(size))?;
        let mut buffer = vec![0; PIECE.min(usize::try_from(size).unwrap_or(PIECE).max(1))];
        let mut left = size;
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match entry.read(&mut buffer[..most]).map_err(broke)? {
                0 => return Err(Error::BrokeOff),
                n => {
                    upload.write(&buffer[..n])?;
                    left -= n as u64;
                }
            }
        }
        if let Some(seconds) = entry.header().mtime().ok().and_then(|t| i64::try_from(t).ok()) {
            let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
            let times = Timestamps { last_access: time, last_modification: time };
            rustix::fs::futimens(upload.file(), &times)?;
        }
        let mode = entry.header().mode().unwrap_or(0o644) & MODE;
        Ok(upload.publish(Some(mode))?.size)
    }

    /// Where the entry goes; directories on the way that are missing are made.
    fn parent(&self, path: &FilePath) -> Result<(OwnedFd, CString)> {
        let place = match resolve::place(&self.root, path, false) {
            Err(Error::NotFound) => {
                self.mkdir(&path.upper(path.names().len() - 1), true)?;
                resolve::place(&self.root, path, false)?
            }
            place => place?,
        };
        place.named(crate::change::ROOT)
    }

    /// Makes a link beside its place and puts it there, in place of a file or a link.
    fn put(
        &self,
        dir: &OwnedFd,
        name: &CStr,
        bytes: u64,
        make: impl FnOnce(&CStr) -> Result<()>,
    ) -> Result<()> {
        let old = at(dir, name)?;
        if old.is_some_and(|old| FileType::from_raw_mode(old.st_mode) == FileType::Directory) {
            return Err(Error::IsDirectory("a directory is there"));
        }
        let mut claim = Claim::new(&self.ledger, 0);
        if old.is_none() {
            claim.entry()?;
        }
        claim.bytes(bytes)?;
        let beside = temporary();
        make(&beside)?;
        let put = rustix::fs::renameat(dir, &beside, dir, name);
        // It is still there where it could not be put, or is another name of what is there.
        let _ = rustix::fs::unlinkat(dir, &beside, AtFlags::empty());
        put?;
        let plain = |old: &Stat| FileType::from_raw_mode(old.st_mode) == FileType::RegularFile;
        let less = old.map_or(Usage::default(), |old| Usage {
            bytes: if plain(&old) { length(&old) } else { 0 },
            entries: 1,
        });
        claim.done(Usage { bytes, entries: 1 }, less);
        Ok(())
    }

    /// Directories stay open to their owner: the rest of the archive goes in.
    fn set_mode(&self, path: &FilePath, mode: u32) -> Result<()> {
        let dir = resolve::open(&self.root, path)?;
        if kind(&dir)? != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        let dir = crate::tree::open_dir(&dir, c".")?;
        let mode = rustix::fs::Mode::from_raw_mode((mode & MODE) | 0o700);
        match rustix::fs::fchmod(&dir, mode) {
            // Another's, in a mode where this is not root.
            Err(Errno::PERM) => Ok(()),
            done => Ok(done?),
        }
    }
}

/// What is there.
fn at(dir: &OwnedFd, name: &CStr) -> Result<Option<Stat>> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The path of an entry; `None`: the directory itself.
fn below(base: &FilePath, name: &[u8]) -> Result<Option<FilePath>> {
    if name.starts_with(b"/") {
        return Err(Error::Denied("its name is absolute"));
    }
    if name.split(|b| *b == b'/').any(|part| part == b"..") {
        return Err(Error::Denied("its name has .. in it"));
    }
    let path = base.join(name)?;
    Ok((path != *base).then_some(path))
}

pub(super) fn broke(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => Error::BrokeOff,
        _ => Error::Malformed("the body is no tar archive (compressed ones are not taken)"),
    }
}
