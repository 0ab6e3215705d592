//! Seals: how the files of a build stood when they were last held against their hashes.
//!
//! Reading them all takes a while, and a server that starts is waited for. What nobody has written
//! to since its seal was made is trusted at once and read later; what somebody has is read first. A
//! file cannot be written to without its times changing.

use super::cache::{Cache, EngineBuild, EngineDir};
use super::{Error, check};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const FILE: &str = "seals.json";

/// By [`name`]; a hash of what [`mark`] sees.
type Seals = BTreeMap<String, String>;

/// Whether a build is as it was when it was last checked: nobody has touched its files.
pub(crate) fn holds(cache: &Cache, build: &EngineBuild) -> bool {
    let seal = read(cache).remove(&name(build));
    seal.is_some_and(|seal| mark(cache, build).is_ok_and(|mark| mark == seal))
}

/// Checks a build and seals it. A cache that is not the caller's to write to is left without seals.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_and_seal(cache: &Cache, build: &EngineBuild) -> Result<(), Error> {
    // Before: who writes meanwhile breaks the seal.
    let mark = mark(cache, build);
    check(cache, build)?;
    let Ok(mark) = mark else { return Ok(()) };
    let mut seals = read(cache);
    if seals.get(&name(build)) == Some(&mark) {
        return Ok(());
    }
    let builds = cache.builds().unwrap_or_default();
    seals.retain(|known, _| builds.iter().any(|build| name(build) == *known));
    seals.insert(name(build), mark);
    let text = serde_json::to_vec_pretty(&seals).unwrap_or_default();
    // Two at once: what is lost is checked once more than it must be.
    if let Err(error) = cache.write(&cache.dir().join(FILE), &text) {
        tracing::debug!(%error, "an engine that was checked could not be sealed");
    }
    Ok(())
}

fn read(cache: &Cache) -> Seals {
    let text = fs::read(cache.dir().join(FILE)).unwrap_or_default();
    // One that is damaged holds nothing.
    serde_json::from_slice(&text).unwrap_or_default()
}

fn name(build: &EngineBuild) -> String {
    format!("{} {}", build.name, build.build())
}

/// Hash over what is wanted of a build and over how its files stand, hex.
fn mark(cache: &Cache, build: &EngineBuild) -> io::Result<String> {
    let mut hash = blake3::Hasher::new();
    hash.update(&serde_json::to_vec(build)?);
    for file in [&build.module, &build.image, &build.meta] {
        add(&mut hash, &cache.path(file), &fs::metadata(cache.path(file))?)?;
    }
    for EngineDir { host, .. } in &build.dirs {
        add(&mut hash, &cache.path(host), &fs::metadata(cache.path(host))?)?;
    }
    Ok(hash.finalize().to_hex().to_string())
}

fn add(hash: &mut blake3::Hasher, path: &Path, found: &Metadata) -> io::Result<()> {
    hash.update(path.as_os_str().as_bytes());
    for number in [found.ino(), found.size(), u64::from(found.mode())] {
        hash.update(&number.to_le_bytes());
    }
    for time in [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()] {
        hash.update(&time.to_le_bytes());
    }
    if found.is_dir() {
        let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        entries.iter().try_for_each(|entry| add(hash, &entry.path(), &entry.metadata()?))?;
    }
    Ok(())
}
