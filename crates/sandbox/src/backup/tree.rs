//! A directory into an archive, while programs may change it.
//!
//! Opened step by step beneath its descriptor, no link followed. Sockets and devices are left out.

use super::BackupError;
use super::manifest::{Facts, Manifest, TOLD, shown};
use super::prepare::DIRECTORY;
use super::sparse::Map;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use tar::{Builder, EntryType, Header};

/// Deepest directory below a sandbox that is entered; each takes a descriptor.
pub(super) const DEPTH: usize = 200;
/// Bytes of a name in a header.
const NAME: usize = 100;
/// Of a pax header: how long a file with holes is.
pub(super) const REAL_SIZE: &str = "GNU.sparse.realsize";

/// An archive that grows.
pub(super) struct Pack<W: Write> {
    pub out: Builder<W>,
    pub manifest: Manifest,
    /// Of files, as they are read.
    pub bytes: u64,
    pub left_out: Vec<String>,
    /// Files of the present directory that have several names.
    linked: HashMap<(u64, u64), Vec<u8>>,
}

/// What has gone, or become something else, since its name was read.
fn went(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::STALE)
}

impl<W: Write> Pack<W> {
    pub fn new(out: Builder<W>, manifest: Manifest, left_out: Vec<String>) -> Self {
        Self { out, manifest, bytes: 0, left_out, linked: HashMap::new() }
    }

    /// Adds a directory, where it is there, with all that is in it.
    pub fn tree(&mut self, at: impl AsFd, name: &str, path: &str) -> Result<(), BackupError> {
        self.linked.clear();
        match rustix::fs::openat(at, name, DIRECTORY, Mode::empty()) {
            Ok(dir) => self.directory(&dir, path.as_bytes(), 0),
            Err(error) if went(error) => Ok(()),
            Err(error) => Err(BackupError::file("open", path)(error.into())),
        }
    }

    /// Adds a directory without what is in it.
    pub fn place(&mut self, dir: impl AsFd, path: &[u8]) -> Result<(), BackupError> {
        let stat = rustix::fs::fstat(dir);
        let stat = stat.map_err(|e| BackupError::file("read", shown(path))(e.into()))?;
        self.entry(&facts(&stat, EntryType::Directory), path, &[])
    }

    fn directory(&mut self, dir: &OwnedFd, path: &[u8], depth: usize) -> Result<(), BackupError> {
        let failed = |e: Errno| BackupError::file("read", shown(path))(e.into());
        self.place(dir, path)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_owned();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name);
            }
        }
        names.sort();
        for name in names {
            let below = [path, b"/", name.to_bytes()].concat();
            let stat = rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW);
            let Some(stat) = self.there(stat, &below)? else { continue };
            let open = |flags: OFlags| {
                let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(dir, &name, flags, Mode::empty())
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if depth == DEPTH => self.leave_out(&below, "is too deep")?,
                FileType::Directory => {
                    if let Some(inner) = self.there(open(OFlags::DIRECTORY), &below)? {
                        self.directory(&inner, &below, depth + 1)?;
                    }
                }
                FileType::RegularFile => {
                    // It may be something else by now, on which this must not wait.
                    if let Some(file) = self.there(open(OFlags::NONBLOCK), &below)? {
                        self.file(&file.into(), &below)?;
                    }
                }
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(dir, &name, Vec::new());
                    if let Some(target) = self.there(target, &below)? {
                        let facts = facts(&stat, EntryType::Symlink);
                        self.entry(&facts, &below, target.to_bytes())?;
                    }
                }
                FileType::Fifo => self.entry(&facts(&stat, EntryType::Fifo), &below, &[])?,
                _ => self.leave_out(&below, "is a socket or a device")?,
            }
        }
        Ok(())
    }

    /// `None`: it is gone by now, or may not be read, which is told.
    fn there<T>(&mut self, found: Result<T, Errno>, path: &[u8]) -> Result<Option<T>, BackupError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) if went(error) => Ok(None),
            Err(Errno::ACCESS | Errno::PERM) => {
                self.leave_out(path, "may not be read")?;
                Ok(None)
            }
            Err(error) => Err(BackupError::file("read", shown(path))(error.into())),
        }
    }

    /// Adds an open file under a name.
    pub fn file(&mut self, file: &File, path: &[u8]) -> Result<(), BackupError> {
        let failed = |e: io::Error| BackupError::file("read", shown(path))(e);
        let stat = rustix::fs::fstat(file).map_err(|e| failed(e.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        if stat.st_nlink > 1 {
            let first =
                self.linked.entry((stat.st_dev, stat.st_ino)).or_insert_with(|| path.into());
            if first != path {
                let first = first.clone();
                return self.entry(&facts(&stat, EntryType::Link), path, &first);
            }
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let stored = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        let map = Map::of(file, size, stored).map_err(failed)?;
        let mut text = Vec::new();
        if map.holes(size) {
            text = map.text(size);
            let pax = [
                ("GNU.sparse.major", "1".to_owned()),
                ("GNU.sparse.minor", "0".to_owned()),
                (REAL_SIZE, size.to_string()),
            ];
            let pax = pax.iter().map(|(key, value)| (*key, value.as_bytes()));
            self.out.append_pax_extensions(pax).map_err(BackupError::Out)?;
        }
        let facts = facts(&stat, EntryType::Regular);
        let mut hash = blake3::Hasher::new();
        let mut error = None;
        let length = text.len() as u64 + map.bytes();
        let data = Pieces { file, map: &map, piece: 0, at: 0, error: &mut error };
        let data = Hashed { from: text.chain(data), hash: &mut hash };
        let added = self.append(&facts, path, &[], length, data);
        if let Some(error) = error {
            return Err(failed(error));
        }
        added?;
        self.bytes += map.bytes();
        self.manifest.entry(&facts, size, &hash.finalize(), path)
    }

    /// Adds an entry without contents, or one that leads to `link`.
    fn entry(&mut self, facts: &Facts, path: &[u8], link: &[u8]) -> Result<(), BackupError> {
        self.append(facts, path, link, 0, io::empty())?;
        self.manifest.entry(facts, 0, &blake3::hash(link), path)
    }

    /// Names and link targets keep their bytes.
    fn append(
        &mut self,
        facts: &Facts,
        path: &[u8],
        link: &[u8],
        size: u64,
        data: impl Read,
    ) -> Result<(), BackupError> {
        let mut header = Header::new_gnu();
        header.set_entry_type(facts.kind);
        header.set_mode(facts.mode);
        header.set_uid(facts.uid);
        header.set_gid(facts.gid);
        header.set_mtime(facts.mtime);
        header.set_size(size);
        self.long(EntryType::GNULongName, path)?;
        self.long(EntryType::GNULongLink, link)?;
        let old = header.as_old_mut();
        for (field, bytes) in [(&mut old.name, path), (&mut old.linkname, link)] {
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

    fn leave_out(&mut self, path: &[u8], why: &str) -> Result<(), BackupError> {
        let told = format!("{} {why}", shown(path));
        self.manifest.left(&told)?;
        if self.left_out.len() < TOLD {
            self.left_out.push(told);
        }
        Ok(())
    }
}

fn facts(stat: &Stat, kind: EntryType) -> Facts {
    Facts {
        kind,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid.into(),
        gid: stat.st_gid.into(),
        mtime: u64::try_from(stat.st_mtime).unwrap_or(0),
    }
}

/// As many bytes as the file had when it was opened: what is longer now is cut, what is shorter
/// ends in zeros.
struct Pieces<'a> {
    file: &'a File,
    map: &'a Map,
    piece: usize,
    /// How much of the piece was read.
    at: u64,
    error: &'a mut Option<io::Error>,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some((start, length)) = self.map.pieces.get(self.piece) {
            let left = length - self.at;
            if left == 0 {
                (self.piece, self.at) = (self.piece + 1, 0);
                continue;
            }
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let buffer = &mut buffer[..most];
            let mut count = match self.file.read_at(buffer, start + self.at) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    let kind = error.kind();
                    *self.error = Some(error);
                    return Err(kind.into());
                }
                read => read?,
            };
            if count == 0 {
                buffer.fill(0);
                count = most;
            }
            self.at += count as u64;
            return Ok(count);
        }
        Ok(0)
    }
}

struct Hashed<'a, R> {
    from: R,
    hash: &'a mut blake3::Hasher,
}

impl<R: Read> Read for Hashed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}
