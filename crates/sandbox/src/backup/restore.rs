//! Restoring a backup into an empty directory, all of it or nothing.
//!
//! Everything is read into `.restore` first and held against the manifest; only then it is put in
//! place, the store last. A restore that was killed leaves `.restore`, with which no server starts.

use super::manifest::{self, Manifest, damaged, shown};
use super::write::{FORMAT, HEAD, PARTS, Report, SANDBOXES, STORE};
use super::BackupError;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use tar::{Archive, Entry, EntryType};

/// The directory of a restore that is not finished.
pub const UNFINISHED: &str = ".restore";
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Restores an archive into `dir`, which is made where it is not there. Blocks. Where it fails
/// `dir` is as it was.
pub fn restore(archive: impl Read, dir: &Path, now_ms: i64) -> Result<Report, BackupError> {
    let text = dir.display().to_string();
    let failed = |action| BackupError::file(action, text.clone());
    let new = match std::fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            None => false,
            Some(_) => return Err(BackupError::NotEmpty(dir.to_owned())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(failed("read")(error)),
    };
    if new {
        std::fs::create_dir_all(dir).map_err(failed("make"))?;
    }
    let mode = Mode::RWXU;
    rustix::fs::chmod(dir, mode).map_err(|e| failed("close")(e.into()))?;
    // Who is second here finds it not empty.
    let place = dir.join(UNFINISHED);
    rustix::fs::mkdir(&place, mode).map_err(|e| failed("write to")(e.into()))?;
    let restored = read_all(archive, &place, now_ms).and_then(|report| {
        put_in_place(&place, dir).map_err(failed("write to"))?;
        Ok(report)
    });
    if restored.is_err() {
        let _ = std::fs::remove_dir_all(&place);
        if new {
            let _ = std::fs::remove_dir(dir);
        }
    }
    restored
}

/// The store goes last: with it, it is a data directory.
fn put_in_place(place: &Path, dir: &Path) -> io::Result<()> {
    let sync = |path: &Path| File::open(path).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?));
    sync(place)?;
    if place.join(SANDBOXES).exists() {
        std::fs::rename(place.join(SANDBOXES), dir.join(SANDBOXES))?;
    }
    std::fs::rename(place.join(STORE), dir.join(STORE))?;
    std::fs::remove_dir_all(place)?;
    sync(dir)
}

fn read_all(archive: impl Read, place: &Path, now_ms: i64) -> Result<Report, BackupError> {
    let zstd = zstd::Decoder::new(BufReader::with_capacity(1 << 20, archive));
    let zstd = zstd.map_err(|e| BackupError::Foreign(e.to_string()))?;
    let mut archive = Archive::new(zstd);
    let root = rustix::fs::open(place, DIRECTORY, Mode::empty());
    let root = root.map_err(|e| BackupError::file("open", UNFINISHED)(e.into()))?;
    let manifest = Manifest::new(place).map_err(BackupError::file("make", "the manifest"))?;
    let mut into = Target { root, manifest, bytes: 0 };
    let mut at = HEAD.to_owned();
    let mut first = true;
    let mut gone = None;
    let entries = archive.entries().map_err(|e| broken(&at, e))?;
    for entry in entries {
        let entry = entry.map_err(|e| broken(&at, e))?;
        let path = entry.path_bytes().into_owned();
        at = shown(&path);
        if gone.is_some() {
            return Err(damaged(&at, "comes after the end"));
        }
        if first != (path == HEAD.as_bytes()) {
            return Err(BackupError::Foreign(format!("it begins with {at}")));
        }
        if path == manifest::NAME.as_bytes() {
            let manifest = std::mem::replace(
                &mut into.manifest,
                Manifest::new(place).map_err(BackupError::file("make", "the manifest"))?,
            );
            gone = Some(manifest.compare(entry)?);
            continue;
        }
        into.entry(entry, &path)?;
        if first {
            check_head(place)?;
            first = false;
        }
    }
    let Some(gone) = gone else { return Err(BackupError::Half(at)) };
    // The archive's own end, and the checksum of what went before.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(|e| broken("the end", e))?;
    for object in gone {
        let left = place.join(SANDBOXES).join(object.to_string());
        if left.exists() {
            std::fs::remove_dir_all(&left).map_err(BackupError::file("remove", "a leftover"))?;
        }
    }
    let store = store::Copy::open(&place.join(STORE)).map_err(BackupError::Store)?;
    store.revive(now_ms).map_err(BackupError::Store)?;
    let sandboxes = store.objects().map_err(BackupError::Store)?.len() as u64;
    store.close().map_err(BackupError::Store)?;
    Ok(Report { sandboxes, bytes: into.bytes, left_out: Vec::new() })
}

/// What stopped in the middle is half; what cannot be decoded is damaged.
fn broken(at: &str, error: io::Error) -> BackupError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => BackupError::Half(at.to_owned()),
        _ => damaged(at, &format!("or what follows it cannot be read ({error})")),
    }
}

fn check_head(place: &Path) -> Result<(), BackupError> {
    let path = place.join(HEAD);
    let text = std::fs::read(&path).map_err(BackupError::file("read", HEAD))?;
    let head: serde_json::Value =
        serde_json::from_slice(&text).map_err(|e| BackupError::Foreign(e.to_string()))?;
    let found = head["format"].as_u64();
    let found = found.ok_or_else(|| BackupError::Foreign("it names no format".to_owned()))?;
    if found > FORMAT {
        return Err(BackupError::Newer { found, known: FORMAT });
    }
    std::fs::remove_file(&path).map_err(BackupError::file("remove", HEAD))
}

/// Where entries go.
struct Target {
    root: OwnedFd,
    manifest: Manifest,
    bytes: u64,
}

impl Target {
    fn entry<R: Read>(&mut self, entry: Entry<'_, R>, path: &[u8]) -> Result<(), BackupError> {
        let text = shown(path);
        if !allowed(path) {
            return Err(damaged(&text, "has no place in a backup"));
        }
        let failed = |error: io::Error| BackupError::file("write", text.clone())(error);
        let (parent, name) = self.parent(path).map_err(failed)?;
        let header = entry.header();
        let mode = header.mode().unwrap_or(0) & 0o7777;
        let owner = (header.uid().unwrap_or(0), header.gid().unwrap_or(0));
        let mtime = header.mtime().unwrap_or(0);
        match header.entry_type() {
            EntryType::Directory => {
                match rustix::fs::mkdirat(&parent, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(failed(error.into())),
                }
                let dir = rustix::fs::openat(&parent, name, DIRECTORY, Mode::empty());
                let dir = dir.map_err(|e| failed(e.into()))?;
                dress(&dir, owner, mode, None).map_err(failed)
            }
            EntryType::Regular => self.file(entry, path, &parent, name, (owner, mode, mtime)),
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                rustix::fs::symlinkat(target, &parent, name).map_err(|e| failed(e.into()))?;
                chown_link(&parent, name, owner).map_err(failed)
            }
            EntryType::Fifo => {
                let mode = Mode::from_raw_mode(mode);
                rustix::fs::mknodat(&parent, name, FileType::Fifo, mode, 0)
                    .map_err(|e| failed(e.into()))?;
                chown_link(&parent, name, owner).map_err(failed)
            }
            _ => Err(damaged(&text, "is of no kind that a backup has")),
        }
    }

    fn file<R: Read>(
        &mut self,
        mut entry: Entry<'_, R>,
        path: &[u8],
        parent: &OwnedFd,
        name: &[u8],
        (owner, mode, mtime): ((u64, u64), u32, u64),
    ) -> Result<(), BackupError> {
        let text = shown(path);
        let failed = |error: io::Error| BackupError::file("write", text.clone())(error);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.map_err(|e| failed(e.into()))?);
        let mut hash = blake3::Hasher::new();
        let mut buffer = vec![0; 128 << 10];
        let mut size = 0_u64;
        loop {
            let count = entry.read(&mut buffer).map_err(|e| broken(&text, e))?;
            if count == 0 {
                break;
            }
            let bytes = &buffer[..count];
            hash.update(bytes);
            size += count as u64;
            // Zeros become a hole again.
            if bytes.iter().all(|byte| *byte == 0) {
                file.set_len(size).map_err(failed)?;
                io::Seek::seek(&mut file, io::SeekFrom::Start(size)).map_err(failed)?;
            } else {
                file.write_all(bytes).map_err(failed)?;
            }
        }
        if entry.header().size().ok() != Some(size) {
            return Err(BackupError::Half(text));
        }
        self.bytes += size;
        let noted = self.manifest.file(path, &hash.finalize(), size);
        noted.map_err(BackupError::file("write", "the manifest"))?;
        dress(&file, owner, mode, Some(mtime)).map_err(failed)
    }

    /// The directory in which an entry goes, and its name there. No link is followed.
    fn parent<'a>(&self, path: &'a [u8]) -> io::Result<(OwnedFd, &'a [u8])> {
        let mut names: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
        let name = names.pop().unwrap_or_default();
        let mut dir = self.root.try_clone()?;
        for (depth, step) in names.into_iter().enumerate() {
            // The two above the parts have no entries of their own.
            if depth < 2 {
                match rustix::fs::mkdirat(&dir, step, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            dir = rustix::fs::openat(&dir, step, DIRECTORY, Mode::empty())?;
        }
        Ok((dir, name))
    }
}

/// `backup.json`, `store.db`, and what lies below the parts of a sandbox.
fn allowed(path: &[u8]) -> bool {
    if path == HEAD.as_bytes() || path == STORE.as_bytes() {
        return true;
    }
    let mut names = path.split(|b| *b == b'/');
    let plain = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
    let object = |name: &[u8]| {
        name.len() == 64 && name.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    names.next() == Some(SANDBOXES.as_bytes())
        && names.next().is_some_and(object)
        && names.next().is_some_and(|part| PARTS.iter().any(|known| known.as_bytes() == part))
        && names.all(plain)
}

/// Sets owner, mode and time. An ordinary user keeps what is its own.
fn dress(file: impl AsFd, owner: (u64, u64), mode: u32, mtime: Option<u64>) -> io::Result<()> {
    if let Some((uid, gid)) = ids(owner)? {
        rustix::fs::fchown(&file, Some(uid), Some(gid))?;
    }
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    if let Some(mtime) = mtime {
        let at = Timespec { tv_sec: mtime.try_into().unwrap_or(0), tv_nsec: 0 };
        rustix::fs::futimens(&file, &Timestamps { last_access: at, last_modification: at })?;
    }
    Ok(())
}

fn chown_link(parent: &OwnedFd, name: &[u8], owner: (u64, u64)) -> io::Result<()> {
    if let Some((uid, gid)) = ids(owner)? {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(parent, name, Some(uid), Some(gid), flags)?;
    }
    Ok(())
}

/// `None`: this process may not give files away.
fn ids((uid, gid): (u64, u64)) -> io::Result<Option<(Uid, Gid)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    // The last one means nobody, and is no id.
    let id = |id: u64| u32::try_from(id).ok().filter(|id| *id != u32::MAX);
    match (id(uid), id(gid)) {
        (Some(uid), Some(gid)) => Ok(Some((Uid::from_raw(uid), Gid::from_raw(gid)))),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it belongs to nobody")),
    }
}
