//! Where the entries of an archive go.
//!
//! An entry is made in a directory that an entry before it made, beneath that one's descriptor:
//! so no name and no link leads out, whatever an archive says. They come depth first; a directory
//! gets its owner, mode and time when the first entry after it comes that is not below it.

use super::BackupError;
use super::error::damaged;
use super::manifest::{Facts, Manifest, shown};
use super::prepare::{DIRECTORY, SANDBOXES, STORE};
use super::restore::broken;
use super::sparse::Map;
use super::tree::DEPTH;
use super::write::{HEAD, PARTS};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use tar::EntryType;

/// Names above the parts of a sandbox, and the part.
const ABOVE: usize = 3;
/// Bytes that are copied at once.
const PIECE: usize = 128 << 10;

/// What is to be made.
pub(super) struct Item<'a, R> {
    pub facts: Facts,
    pub path: &'a [u8],
    /// Where a link leads.
    pub link: &'a [u8],
    /// Of a file with holes: how long it is.
    pub real_size: Option<u64>,
    /// Bytes of the data, as the header says.
    pub size: u64,
    pub data: R,
}

struct Open {
    path: Vec<u8>,
    dir: OwnedFd,
    facts: Facts,
}

/// A directory that fills.
pub(super) struct Target {
    root: OwnedFd,
    open: Vec<Open>,
    pub manifest: Manifest,
    pub bytes: u64,
    buffer: Vec<u8>,
}

impl Target {
    pub fn new(place: &Path) -> Result<Self, BackupError> {
        let root = rustix::fs::open(place, DIRECTORY, Mode::empty());
        let root =
            root.map_err(|e| BackupError::file("open", place.display().to_string())(e.into()))?;
        let manifest = Manifest::new(place)?;
        Ok(Self { root, open: Vec::new(), manifest, bytes: 0, buffer: vec![0; PIECE] })
    }

    /// Makes an entry.
    pub fn make<R: Read>(&mut self, item: Item<'_, R>) -> Result<(), BackupError> {
        let text = shown(item.path);
        if !allowed(item.path, item.facts.kind) {
            return Err(damaged(text, "has no place in a backup"));
        }
        let (parent, name) = match item.path.iter().rposition(|b| *b == b'/') {
            Some(at) => (&item.path[..at], &item.path[at + 1..]),
            None => (&b""[..], item.path),
        };
        self.leave(parent)?;
        let dir = match self.open.last() {
            Some(open) => open.dir.as_fd(),
            None if parent.is_empty() => self.root.as_fd(),
            None => return Err(damaged(text, "is out of place")),
        };
        // A descriptor of its own, as a directory below becomes the present one.
        let dir = dir.try_clone_to_owned().map_err(BackupError::file("open", text.clone()))?;
        self.fill(item, &dir, name, &text)
    }

    fn fill<R: Read>(
        &mut self,
        mut item: Item<'_, R>,
        dir: &OwnedFd,
        name: &[u8],
        text: &str,
    ) -> Result<(), BackupError> {
        let facts = item.facts;
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => damaged(text, "is there twice"),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => {
                damaged(text, "has no name that can be")
            }
            _ => BackupError::file("write", text)(error),
        };
        let mut size = 0;
        let mut hash = blake3::hash(item.link);
        match facts.kind {
            EntryType::Directory => {
                rustix::fs::mkdirat(dir, name, Mode::RWXU).map_err(|e| failed(e.into()))?;
                let made = rustix::fs::openat(dir, name, DIRECTORY, Mode::empty());
                let made = made.map_err(|e| failed(e.into()))?;
                self.open.push(Open { path: item.path.to_owned(), dir: made, facts });
            }
            EntryType::Regular => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let file = rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR);
                let file = File::from(file.map_err(|e| failed(e.into()))?);
                let data = Counted { from: &mut item.data, hash: blake3::Hasher::new(), count: 0 };
                (size, hash) =
                    copy(data, &file, item.size, item.real_size, &mut self.buffer, text)?;
                self.bytes += item.size;
                dress(&file, &facts).map_err(failed)?;
            }
            EntryType::Link => self.link(item.path, item.link, dir, name, text)?,
            EntryType::Symlink => {
                rustix::fs::symlinkat(item.link, dir, name).map_err(|e| failed(e.into()))?;
                own_name(dir, name, &facts).map_err(failed)?;
            }
            EntryType::Fifo => {
                let mode = Mode::from_raw_mode(facts.mode);
                rustix::fs::mknodat(dir, name, FileType::Fifo, mode, 0)
                    .map_err(|e| failed(e.into()))?;
                own_name(dir, name, &facts).map_err(failed)?;
                // Nobody but us is in this directory.
                rustix::fs::chmodat(dir, name, mode, AtFlags::empty())
                    .map_err(|e| failed(e.into()))?;
            }
            _ => return Err(damaged(text, "is of no kind that a backup has")),
        }
        self.manifest.entry(&facts, size, &hash, item.path)
    }

    /// A second name of a file of the same part of the sandbox.
    fn link(
        &self,
        path: &[u8],
        target: &[u8],
        dir: &OwnedFd,
        name: &[u8],
        text: &str,
    ) -> Result<(), BackupError> {
        let wrong = || damaged(text, "is a second name of nothing that was restored");
        let part = |path: &[u8]| -> Vec<u8> {
            path.split(|b| *b == b'/').take(ABOVE).collect::<Vec<_>>().join(&b'/')
        };
        if !allowed(target, EntryType::Regular) || part(target) != part(path) {
            return Err(wrong());
        }
        let mut names: Vec<&[u8]> = target.split(|b| *b == b'/').collect();
        let last = names.pop().unwrap_or_default();
        let mut from = self.root.try_clone().map_err(BackupError::file("open", text))?;
        for step in names {
            from =
                rustix::fs::openat(&from, step, DIRECTORY, Mode::empty()).map_err(|_| wrong())?;
        }
        let stat =
            rustix::fs::statat(&from, last, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| wrong())?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(wrong());
        }
        let linked = rustix::fs::linkat(&from, last, dir, name, AtFlags::empty());
        linked.map_err(|e| BackupError::file("write", text)(e.into()))
    }

    /// Leaves the directories that are not on the way to this one.
    fn leave(&mut self, parent: &[u8]) -> Result<(), BackupError> {
        while let Some(open) = self.open.pop_if(|open| open.path != parent) {
            let text = shown(&open.path);
            dress(&open.dir, &open.facts).map_err(BackupError::file("write", text))?;
        }
        Ok(())
    }

    /// Leaves them all.
    pub fn finish(&mut self) -> Result<(), BackupError> {
        self.leave(b"")
    }
}

/// `backup.json`, `store.db`, and what lies below the parts of a sandbox.
fn allowed(path: &[u8], kind: EntryType) -> bool {
    let names: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
    let object = |name: &[u8]| {
        name.len() == 64 && name.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let part = |name: &[u8]| PARTS.iter().any(|part| part.as_bytes() == name);
    let plain = |name: &&[u8]| !matches!(*name, b"" | b"." | b"..");
    let dir = kind == EntryType::Directory;
    match names.as_slice() {
        [one] if *one == SANDBOXES.as_bytes() => dir,
        [one] => {
            kind == EntryType::Regular && (*one == HEAD.as_bytes() || *one == STORE.as_bytes())
        }
        [top, id, below @ ..] if *top == SANDBOXES.as_bytes() && object(id) => match below {
            [] => dir,
            [one] => dir && part(one),
            [one, rest @ ..] => part(one) && rest.iter().all(plain) && rest.len() <= DEPTH + 1,
        },
        _ => false,
    }
}

/// What is read, its hash and its length.
struct Counted<'a, R> {
    from: &'a mut R,
    hash: blake3::Hasher,
    count: u64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.count += count as u64;
        Ok(count)
    }
}

/// Copies all data of a file; its length and the hash of the data.
fn copy<R: Read>(
    mut data: Counted<'_, R>,
    mut file: &File,
    size: u64,
    real_size: Option<u64>,
    buffer: &mut [u8],
    text: &str,
) -> Result<(u64, blake3::Hash), BackupError> {
    let failed = |error| BackupError::file("write", text)(error);
    let (real, map) = match real_size {
        None => (size, Map { pieces: vec![(0, size)] }),
        Some(real) if i64::try_from(real).is_err() => return Err(damaged(text, "is too long")),
        Some(real) => (real, Map::read(&mut data, real).map_err(|e| broken(text, e))?),
    };
    for (at, length) in &map.pieces {
        file.seek(SeekFrom::Start(*at)).map_err(failed)?;
        let mut left = *length;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let count = data.read(&mut buffer[..most]).map_err(|e| broken(text, e))?;
            if count == 0 {
                return Err(BackupError::Half(text.to_owned()));
            }
            file.write_all(&buffer[..count]).map_err(failed)?;
            left -= count as u64;
        }
    }
    if data.count != size {
        return Err(damaged(text, "has other data than it says"));
    }
    if map.holes(real) {
        file.set_len(real).map_err(failed)?;
    }
    Ok((real, data.hash.finalize()))
}

/// Sets owner, mode and time. An ordinary user keeps what is its own.
fn dress(file: impl AsFd, facts: &Facts) -> io::Result<()> {
    if let Some((uid, gid)) = ids(facts)? {
        rustix::fs::fchown(&file, Some(uid), Some(gid))?;
    }
    // After the owner, whose change takes the set-id bits away.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(facts.mode))?;
    let at = Timespec { tv_sec: facts.mtime.try_into().unwrap_or(0), tv_nsec: 0 };
    let times = Timestamps { last_access: at, last_modification: at };
    Ok(rustix::fs::futimens(&file, &times)?)
}

fn own_name(dir: &OwnedFd, name: &[u8], facts: &Facts) -> io::Result<()> {
    if let Some((uid, gid)) = ids(facts)? {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(dir, name, Some(uid), Some(gid), flags)?;
    }
    Ok(())
}

/// `None`: this process may not give files away.
fn ids(facts: &Facts) -> io::Result<Option<(Uid, Gid)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    // The last one means nobody, and is no id.
    let id = |id: u64| u32::try_from(id).ok().filter(|id| *id != u32::MAX);
    match (id(facts.uid), id(facts.gid)) {
        (Some(uid), Some(gid)) => Ok(Some((Uid::from_raw(uid), Gid::from_raw(gid)))),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it belongs to nobody")),
    }
}
