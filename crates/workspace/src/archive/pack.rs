//! A tree as a tar archive (GNU), written as it is read.
//!
//! FIFOs, sockets and devices are left out, links are kept as links, a file with several names is
//! written once for each. Names and link targets keep their bytes.

use crate::error::Error;
use crate::path::FilePath;
use crate::read::{Reading, reading};
use crate::resolve::{self, kind};
use crate::tree::{self, Entry, Go, Visit};
use crate::{Result, Workspace};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use tar::{Builder, EntryType, Header};

/// Files up to this are read before their length is written, bytes: what shrinks meanwhile does
/// not break the archive.
const SMALL: u64 = 1 << 20;
/// Bytes that are read of a large file at once.
const PIECE: usize = 256 << 10;
/// Bytes of a name in a header.
const NAME: usize = 100;

/// A file or a tree that is to be written as an archive.
pub struct Archive {
    place: OwnedFd,
    name: Vec<u8>,
    most: usize,
}

impl Workspace {
    /// Finds what is to be packed: a directory, whose contents are packed without itself, or a
    /// file; a link is followed as long as it stays inside. Blocks.
    pub fn archive(&self, path: &FilePath) -> Result<Archive> {
        let place = resolve::open(&self.root, path)?;
        if !matches!(kind(&place)?, FileType::Directory | FileType::RegularFile) {
            return Err(Error::Denied("it is neither a plain file nor a directory"));
        }
        let name = path.names().last().map_or(Vec::new(), |name| name.as_bytes().to_vec());
        // What others wrote past the limit is theirs to have back.
        let most = usize::try_from(self.limits.entries.saturating_mul(10)).unwrap_or(usize::MAX);
        Ok(Archive { place, name, most })
    }
}

impl Archive {
    /// Writes the archive. Blocks as long as `out` does. Errors: [`Error::BrokeOff`] where `out`
    /// takes no more, [`Error::Changed`] where a large file became shorter meanwhile.
    pub fn write_to(self, out: impl Write) -> Result<()> {
        let mut pack = Pack { out: Builder::new(out) };
        if kind(&self.place)? == FileType::Directory {
            if !tree::walk(&self.place, self.most, &mut pack)? {
                return Err(Error::Full { what: "entries", limit: self.most as u64 });
            }
        } else {
            let stat = rustix::fs::fstat(&self.place)?;
            pack.file(&stat, &self.name, reading(self.place)?)?;
        }
        pack.out.into_inner().and_then(|mut out| out.flush()).map_err(broke)
    }
}

struct Pack<W: Write> {
    out: Builder<W>,
}

impl<W: Write> Pack<W> {
    fn entry(
        &mut self,
        stat: &Stat,
        kind: EntryType,
        name: &[u8],
        link: &[u8],
        size: u64,
        data: impl Read,
    ) -> Result<()> {
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
        self.out.append(&header, data).map_err(broke)
    }

    /// What is too long for a header goes before it.
    fn long(&mut self, kind: EntryType, bytes: &[u8]) -> Result<()> {
        if bytes.len() <= NAME {
            return Ok(());
        }
        let mut header = Header::new_gnu();
        let name = b"././@LongLink";
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_size(bytes.len() as u64 + 1);
        header.set_cksum();
        self.out.append(&header, bytes.chain(&b"\0"[..])).map_err(broke)
    }

    fn file(&mut self, stat: &Stat, name: &[u8], file: Reading) -> Result<()> {
        let size = file.size();
        if size <= SMALL {
            let bytes = match file.at(0, SMALL as usize) {
                // It shrank since it was opened: as long as it is now.
                Err(Error::Changed) => now(&file)?,
                bytes => bytes?,
            };
            let size = bytes.len() as u64;
            return self.entry(stat, EntryType::Regular, name, b"", size, &*bytes);
        }
        let mut pieces = Pieces { file, at: 0, piece: io::Cursor::default(), error: None };
        let written = self.entry(stat, EntryType::Regular, name, b"", size, &mut pieces);
        match pieces.error {
            Some(error) => Err(error),
            None => written,
        }
    }
}

/// What a small file holds that changes all the time.
fn now(file: &Reading) -> Result<Vec<u8>> {
    let mut bytes = vec![0; SMALL as usize];
    let length = rustix::io::pread(file.file(), &mut bytes[..], 0)?;
    bytes.truncate(length);
    Ok(bytes)
}

impl<W: Write> Visit for Pack<W> {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<Go> {
        match entry.kind() {
            FileType::Directory => {
                let mut name = entry.path.to_vec();
                name.push(b'/');
                self.entry(entry.stat, EntryType::Directory, &name, b"", 0, io::empty())?;
            }
            FileType::RegularFile => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = rustix::fs::openat(entry.dir, entry.name, flags, Mode::empty())
                    .map_err(Error::from)
                    .and_then(reading);
                match opened {
                    Ok(file) => self.file(entry.stat, entry.path, file)?,
                    // Gone, or something else by now.
                    Err(Error::NotFound | Error::Denied(_) | Error::IsDirectory(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            FileType::Symlink => match rustix::fs::readlinkat(entry.dir, entry.name, Vec::new()) {
                Ok(target) => {
                    let (kind, target) = (EntryType::Symlink, target.as_bytes());
                    self.entry(entry.stat, kind, entry.path, target, 0, io::empty())?;
                }
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            },
            _ => {}
        }
        Ok(Go::On)
    }
}

/// A large file, piece by piece.
struct Pieces {
    file: Reading,
    at: u64,
    piece: io::Cursor<Vec<u8>>,
    error: Option<Error>,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.position() == self.piece.get_ref().len() as u64 {
            match self.file.at(self.at, PIECE) {
                Ok(bytes) => {
                    self.at += bytes.len() as u64;
                    self.piece = io::Cursor::new(bytes);
                }
                Err(error) => {
                    self.error = Some(error);
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
        self.piece.read(buffer)
    }
}

fn broke(_: io::Error) -> Error {
    Error::BrokeOff
}
