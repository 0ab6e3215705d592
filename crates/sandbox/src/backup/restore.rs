//! Restoring a backup into an empty directory, all of it or nothing.
//!
//! Everything is read into `.restore` first and held against the manifest; only then it is put in
//! place, the store last. While `.restore` is there no store is opened in the directory, and the
//! next restore begins anew.

use super::BackupError;
use super::error::damaged;
use super::manifest::{self, Facts, Manifest, shown};
use super::prepare::{SANDBOXES, STORE};
use super::target::{Item, Target};
use super::tree::REAL_SIZE;
use super::write::{FORMAT, HEAD, Head, Report};
use std::fs::{DirBuilder, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use store::{Copy, Lock, UNFINISHED};
use tar::{Archive, EntryType, Header, PaxExtensions};

/// Longest path or link in an archive, bytes.
const NAME: u64 = 128 << 10;
/// The lock's file, all that an empty data directory may have.
const LOCK: &str = "lock";
/// Longest time in a backup that counts, ms.
const AWAY: i64 = 100 * 365 * 86_400_000;

/// Restores an archive into `dir`, which is made where it is not there. Blocks. Where it fails
/// `dir` is as it was.
pub fn restore(archive: impl Read, dir: &Path, now_ms: i64) -> Result<Report, BackupError> {
    let failed = |action| BackupError::file(action, dir.display().to_string());
    let new = match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(failed("make")(error)),
    };
    check_empty(dir)?;
    let lock = Lock::of(dir)?;
    let restored = restore_locked(archive, dir, now_ms);
    if restored.is_err() {
        let _ = remove_rest(dir);
        let _ = std::fs::remove_file(dir.join(LOCK));
        if new {
            let _ = std::fs::remove_dir(dir);
        }
    }
    drop(lock);
    restored
}

/// Nothing but a lock, or what a restore left that was killed.
fn check_empty(dir: &Path) -> Result<(), BackupError> {
    let failed = || BackupError::file("read", dir.display().to_string());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed())? {
        names.push(entry.map_err(failed())?.file_name());
    }
    let mut known = vec![LOCK];
    if names.iter().any(|name| name == UNFINISHED) {
        known.extend([UNFINISHED, SANDBOXES, STORE]);
    }
    match names.iter().all(|name| known.iter().any(|known| name == known)) {
        true => Ok(()),
        false => Err(BackupError::NotEmpty(dir.to_owned())),
    }
}

fn remove_rest(dir: &Path) -> io::Result<()> {
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    gone(std::fs::remove_dir_all(dir.join(SANDBOXES)))?;
    gone(std::fs::remove_file(dir.join(STORE)))?;
    // The last one: while it is there nothing of this counts.
    gone(std::fs::remove_dir_all(dir.join(UNFINISHED)))
}

fn restore_locked(archive: impl Read, dir: &Path, now_ms: i64) -> Result<Report, BackupError> {
    let failed = || BackupError::file("write to", dir.display().to_string());
    // Again, as somebody may have been faster.
    check_empty(dir)?;
    let place = dir.join(UNFINISHED);
    if place.exists() {
        remove_rest(dir).map_err(failed())?;
    }
    DirBuilder::new().mode(0o700).create(&place).map_err(failed())?;
    let report = read_all(archive, &place, now_ms)?;
    put_in_place(&place, dir).map_err(failed())?;
    Ok(report)
}

/// The store goes last: with it, it is a data directory.
fn put_in_place(place: &Path, dir: &Path) -> io::Result<()> {
    let sync = |path: &Path| File::open(path).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?));
    sync(place)?;
    if place.join(SANDBOXES).exists() {
        std::fs::rename(place.join(SANDBOXES), dir.join(SANDBOXES))?;
    }
    std::fs::rename(place.join(STORE), dir.join(STORE))?;
    sync(dir)?;
    std::fs::remove_dir_all(place)?;
    sync(dir)
}

/// What entries of no file say of the next one.
#[derive(Default)]
struct Ahead {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    real_size: Option<u64>,
}

fn read_all(archive: impl Read, place: &Path, now_ms: i64) -> Result<Report, BackupError> {
    let zstd = zstd::Decoder::new(BufReader::with_capacity(1 << 20, archive));
    let zstd = zstd.map_err(|e| BackupError::Foreign(e.to_string()))?;
    let mut archive = Archive::new(zstd);
    let mut into = Target::new(place)?;
    let mut at = HEAD.to_owned();
    let mut head = None;
    let mut told = None;
    let mut ahead = Ahead::default();
    // Names of any length are ours to read: a hostile one is not kept in memory.
    for entry in archive.entries().map_err(|e| broken(&at, e))?.raw(true) {
        let mut entry = entry.map_err(|e| match (&head, e.kind()) {
            (None, kind) if kind != io::ErrorKind::UnexpectedEof => {
                BackupError::Foreign(e.to_string())
            }
            _ => broken(&at, e),
        })?;
        let header = entry.header().clone();
        match header.entry_type() {
            EntryType::GNULongName => ahead.path = Some(name(&mut entry, &at)?),
            EntryType::GNULongLink => ahead.link = Some(name(&mut entry, &at)?),
            EntryType::XHeader => ahead.real_size = real_size(&name(&mut entry, &at)?),
            kind => {
                let Ahead { path, link, real_size } = std::mem::take(&mut ahead);
                let path = path.unwrap_or_else(|| header.path_bytes().into_owned());
                let link = link.or_else(|| Some(header.link_name_bytes()?.into_owned()));
                at = shown(&path);
                if told.is_some() {
                    return Err(damaged(at, "comes after the end"));
                }
                if head.is_none() != (path == HEAD.as_bytes()) {
                    return Err(BackupError::Foreign(format!("{at} is where it must not be")));
                }
                if path == manifest::NAME.as_bytes() {
                    let found = std::mem::replace(&mut into.manifest, Manifest::new(place)?);
                    told = Some(found.compare(entry)?);
                    continue;
                }
                let item = Item {
                    facts: facts(&header, kind).map_err(|e| damaged(&at, e.to_string()))?,
                    path: &path,
                    link: link.as_deref().unwrap_or_default(),
                    real_size,
                    size: entry.size(),
                    data: entry,
                };
                into.make(item)?;
                if head.is_none() {
                    head = Some(take_head(place)?);
                }
            }
        }
    }
    let (Some(head), Some(told)) = (head, told) else { return Err(BackupError::Half(at)) };
    // The archive's own end, and the checksum of what went before.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(|e| broken("the end", e))?;
    into.finish()?;
    for object in &told.gone {
        let left = place.join(SANDBOXES).join(object.to_string());
        if left.exists() {
            std::fs::remove_dir_all(&left).map_err(BackupError::file("remove", "a leftover"))?;
        }
    }
    let path = place.join(STORE);
    if !path.exists() {
        return Err(damaged(STORE, "is missing"));
    }
    let store = Copy::open(&path).map_err(of_copy)?;
    store.resume(now_ms.saturating_sub(head.created_ms).clamp(0, AWAY)).map_err(of_copy)?;
    let report = Report {
        sandboxes: store.lives().map_err(of_copy)?.len() as u64,
        bytes: into.bytes,
        left_out: told.left_out,
        builds: store.builds().map_err(of_copy)?,
        at_ms: head.created_ms,
    };
    store.close()?;
    Ok(report)
}

fn of_copy(error: store::Error) -> BackupError {
    match error {
        store::Error::Corrupt { detail, .. } => {
            damaged(STORE, format!("cannot be used ({detail})"))
        }
        other => BackupError::Store(other),
    }
}

/// What stopped in the middle is half; what cannot be decoded is damaged.
pub(super) fn broken(at: &str, error: io::Error) -> BackupError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => BackupError::Half(at.to_owned()),
        _ => damaged(at, format!("or what follows it cannot be read ({error})")),
    }
}

/// The name in an entry of its own.
fn name(entry: &mut impl Read, at: &str) -> Result<Vec<u8>, BackupError> {
    let mut name = Vec::new();
    entry.take(NAME + 1).read_to_end(&mut name).map_err(|e| broken(at, e))?;
    if name.len() as u64 > NAME {
        return Err(damaged(at, "is followed by a name that is too long"));
    }
    if name.last() == Some(&0) {
        name.pop();
    }
    Ok(name)
}

fn real_size(pax: &[u8]) -> Option<u64> {
    let found = PaxExtensions::new(pax).flatten().find(|pair| pair.key() == Ok(REAL_SIZE));
    found?.value().ok()?.parse().ok()
}

fn facts(header: &Header, kind: EntryType) -> io::Result<Facts> {
    Ok(Facts {
        kind,
        mode: header.mode()? & 0o7777,
        uid: header.uid()?,
        gid: header.gid()?,
        mtime: header.mtime()?,
    })
}

/// The first entry, which counts no more once it is read.
fn take_head(place: &Path) -> Result<Head, BackupError> {
    let path = place.join(HEAD);
    let file = File::open(&path).map_err(BackupError::file("read", HEAD))?;
    let head: serde_json::Value = serde_json::from_reader(file.take(1 << 20))
        .map_err(|e| BackupError::Foreign(e.to_string()))?;
    // First of all, as a newer format may look otherwise.
    match head["format"].as_u64() {
        None => return Err(BackupError::Foreign("it names no format".to_owned())),
        Some(found) if found > FORMAT => {
            return Err(BackupError::Newer { found, known: FORMAT });
        }
        Some(_) => {}
    }
    let head = serde_json::from_value(head).map_err(|e| BackupError::Foreign(e.to_string()))?;
    std::fs::remove_file(&path).map_err(BackupError::file("remove", HEAD))?;
    Ok(head)
}
