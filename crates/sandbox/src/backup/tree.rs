//! A directory into an archive, while programs may change it.
//!
//! Opened step by step beneath its descriptor, no link followed. Sockets and devices are left
//! out, and so is a file that is nearly all hole, which would be read for ever.

use super::manifest::{Manifest, shown};
use super::BackupError;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use tar::{Builder, EntryType, Header};

/// Deepest directory that is entered; each takes a descriptor.
const DEPTH: usize = 200;
/// How many bytes of holes a file may have.
const HOLES: u64 = 4 << 30;
/// How many of those left out are told.
const TOLD: usize = 100;
/// Bytes of a name in a header.
const NAME: usize = 100;

/// An archive that grows.
pub(super) struct Pack<W: Write> {
    pub out: Builder<W>,
    pub manifest: Manifest,
    pub bytes: u64,
    pub left_out: Vec<String>,
}

impl<W: Write> Pack<W> {
    /// Adds a directory with all that is in it, and answers whether it was there.
    pub fn tree(&mut self, at: impl AsFd, name: &[u8], path: &[u8]) -> Result<bool, BackupError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(at, name, flags, Mode::empty()) {
            Ok(dir) => {
                self.directory(dir, path, 0)?;
                Ok(true)
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(BackupError::file("open", shown(path))(error.into())),
        }
    }

    fn directory(&mut self, dir: OwnedFd, path: &[u8], depth: usize) -> Result<(), BackupError> {
        let failed = |e: Errno| BackupError::file("read", shown(path))(e.into());
        let stat = rustix::fs::fstat(&dir).map_err(failed)?;
        self.entry(&stat, EntryType::Directory, path, &[], 0, io::empty())?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_owned();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name);
            }
        }
        names.sort();
        for name in names {
            let below = [path, b"/", name.to_bytes()].concat();
            // What is gone by now is out.
            let Ok(stat) = rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if depth == DEPTH => self.leave_out(&below, "is too deep"),
                FileType::Directory => {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                    let opened =
                        rustix::fs::openat(&dir, &name, flags | OFlags::CLOEXEC, Mode::empty());
                    if let Ok(inner) = opened {
                        self.directory(inner, &below, depth + 1)?;
                    }
                }
                FileType::RegularFile => {
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
                    let opened =
                        rustix::fs::openat(&dir, &name, flags | OFlags::CLOEXEC, Mode::empty());
                    if let Ok(file) = opened {
                        self.file(file.into(), &below)?;
                    }
                }
                FileType::Symlink => {
                    if let Ok(target) = rustix::fs::readlinkat(&dir, &name, Vec::new()) {
                        let target = target.into_bytes();
                        self.entry(&stat, EntryType::Symlink, &below, &target, 0, io::empty())?;
                    }
                }
                FileType::Fifo => {
                    self.entry(&stat, EntryType::Fifo, &below, &[], 0, io::empty())?;
                }
                _ => self.leave_out(&below, "is a socket or a device"),
            }
        }
        Ok(())
    }

    /// Adds an open file under a name.
    pub fn file(&mut self, file: File, path: &[u8]) -> Result<(), BackupError> {
        let failed = |e: Errno| BackupError::file("read", shown(path))(e.into());
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let stored = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        if size.saturating_sub(stored) > HOLES {
            self.leave_out(path, "is nearly all hole");
            return Ok(());
        }
        let mut hash = blake3::Hasher::new();
        let data = Exactly { file, left: size, hash: &mut hash };
        self.entry(&stat, EntryType::Regular, path, &[], size, data)?;
        self.bytes += size;
        let noted = self.manifest.file(path, &hash.finalize(), size);
        noted.map_err(BackupError::file("write", "the manifest"))
    }

    /// Adds an entry; names and link targets keep their bytes.
    pub fn entry(
        &mut self,
        stat: &Stat,
        kind: EntryType,
        name: &[u8],
        link: &[u8],
        size: u64,
        data: impl Read,
    ) -> Result<(), BackupError> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(stat.st_mode & 0o7777);
        header.set_uid(stat.st_uid.into());
        header.set_gid(stat.st_gid.into());
        header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
        header.set_size(size);
        self.long(EntryType::GNULongName, name)?;
        self.long(EntryType::GNULongLink, link)?;
        let old = header.as_old_mut();
        for (field, bytes) in [(&mut old.name, name), (&mut old.linkname, link)] {
            let length = bytes.len().min(NAME);
            field[..length].copy_from_slice(&bytes[..length]);
        }
        header.set_cksum();
        self.out.append(&header, data).map_err(BackupError::Out)
    }

    fn long(&mut self, kind: EntryType, bytes: &[u8]) -> Result<(), BackupError> {
        if bytes.len() <= NAME {
            return Ok(());
        }
        let mut header = Header::new_gnu();
        let name = b"././@LongLink";
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_size(bytes.len() as u64 + 1);
        header.set_cksum();
        self.out.append(&header, bytes.chain(&b"\0"[..])).map_err(BackupError::Out)
    }

    fn leave_out(&mut self, path: &[u8], why: &str) {
        if self.left_out.len() < TOLD {
            self.left_out.push(format!("{} {why}", shown(path)));
        }
    }
}

/// As many bytes as the file had when it was opened: what is longer now is cut, what is shorter
/// ends in zeros.
struct Exactly<'a> {
    file: File,
    left: u64,
    hash: &'a mut blake3::Hasher,
}

impl Read for Exactly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = &mut buffer[..most];
        let mut count = self.file.read(buffer)?;
        if count == 0 {
            buffer.fill(0);
            count = most;
        }
        self.left -= count as u64;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}
