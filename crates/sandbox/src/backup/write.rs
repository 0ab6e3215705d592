//! Writing a backup.

use super::BackupError;
use super::manifest::{self, Manifest};
use super::prepare::{DIRECTORY, PACKS, Prepared, SANDBOXES, STORE, prepare};
use super::tree::Pack;
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use store::{Copy, Gone, Life, NeededBuild, Store};
use tar::{Builder, EntryType};
use tokio::runtime::Handle;
use types::ObjectId;

/// The format that is written.
pub(super) const FORMAT: u64 = 1;
pub(super) const HEAD: &str = "backup.json";
/// What is kept of a sandbox beside its row.
pub(super) const CONTEXTS: &str = "contexts";
pub(super) const PARTS: [&str; 3] = ["workspace", CONTEXTS, "logs"];

/// What went into an archive, or came out of it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// Sandboxes.
    pub sandboxes: u64,
    /// Of their files, bytes.
    pub bytes: u64,
    /// The first hundred of what is left out, and why.
    pub left_out: Vec<String>,
    /// The builds of engines that contexts need.
    pub builds: Vec<NeededBuild>,
    /// When it was taken, ms since the epoch.
    pub at_ms: i64,
}

/// The first entry of an archive.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head {
    pub format: u64,
    pub release: String,
    /// For people.
    pub created_at: String,
    pub created_ms: i64,
    /// For people as well: the store's copy has them.
    #[serde(default)]
    engines: Vec<HeadBuild>,
}

#[derive(Serialize, Deserialize)]
struct HeadBuild {
    engine: String,
    version: String,
    wasm: String,
    base: String,
}

/// Writes a backup of a data directory whose store is open and that no server uses.
pub async fn write(
    store: &Store,
    data: &Path,
    now_ms: i64,
    out: impl Write + Send + 'static,
) -> Result<Report, BackupError> {
    archive(prepare(store, data, now_ms).await?, store.clone(), out).await
}

/// Writes the archive of what was taken.
pub(super) async fn archive(
    prepared: Prepared,
    store: Store,
    out: impl Write + Send + 'static,
) -> Result<Report, BackupError> {
    let runtime = Handle::current();
    let lives = move || runtime.block_on(store.lives());
    let work = tokio::task::spawn_blocking(move || write_all(prepared, lives, out));
    work.await.unwrap_or_else(|e| Err(BackupError::Out(io::Error::other(e))))
}

fn write_all(
    prepared: Prepared,
    lives_now: impl FnOnce() -> store::Result<std::collections::HashMap<ObjectId, Life>>,
    out: impl Write,
) -> Result<Report, BackupError> {
    let dir = prepared.dir.path();
    let mut zstd = zstd::Encoder::new(out, 1).map_err(BackupError::Out)?;
    zstd.include_checksum(true).map_err(BackupError::Out)?;
    let mut manifest = Manifest::new(dir)?;
    for left in &prepared.left_out {
        manifest.left(left)?;
    }
    let mut pack = Pack::new(Builder::new(zstd), manifest, prepared.left_out.clone());
    let mut store = Copy::open(&dir.join(STORE))?;
    let builds = store.builds()?;
    let head = serde_json::to_string(&head(prepared.at_ms, &builds));
    let head = head.map_err(|e| BackupError::Out(e.into()))?;
    std::fs::write(dir.join(HEAD), head).map_err(BackupError::file("write", HEAD))?;
    own(&mut pack, dir, HEAD)?;

    let lives = store.lives()?;
    if let Some(root) = open(CWD, prepared.data.join(SANDBOXES))? {
        pack.place(&root, SANDBOXES.as_bytes())?;
        let packs = open(CWD, dir.join(PACKS))?;
        for (object, _) in lives.iter().filter(|(_, life)| !life.expired) {
            sandbox(&mut pack, &root, packs.as_ref(), object)?;
        }
    }
    let now = lives_now()?;
    let gone = lives
        .iter()
        .filter_map(|(object, was)| Some((*object, gone(*was, now.get(object).copied())?)));
    let gone: Vec<(ObjectId, Gone)> = gone.collect();
    for (object, _) in &gone {
        pack.manifest.gone(object)?;
    }
    store.settle(&gone, prepared.at_ms)?;
    let sandboxes = store.lives()?.len() as u64;
    store.close()?;
    own(&mut pack, dir, STORE)?;

    let Pack { mut out, manifest, bytes, left_out, .. } = pack;
    let (size, text) = manifest.finish()?;
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(size);
    out.append_data(&mut header, manifest::NAME, text).map_err(BackupError::Out)?;
    let zstd = out.into_inner().map_err(BackupError::Out)?;
    let mut out = zstd.finish().map_err(BackupError::Out)?;
    out.flush().map_err(BackupError::Out)?;
    Ok(Report { sandboxes, bytes, left_out, builds, at_ms: prepared.at_ms })
}

fn head(at_ms: i64, builds: &[NeededBuild]) -> Head {
    let engines = builds.iter().cloned().map(|build| {
        let NeededBuild { engine, version, wasm, base } = build;
        HeadBuild { engine, version, wasm, base }
    });
    Head {
        format: FORMAT,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: types::iso8601(at_ms),
        created_ms: at_ms,
        engines: engines.collect(),
    }
}

/// A directory, where it is there.
fn open(
    at: impl std::os::fd::AsFd,
    path: impl AsRef<Path>,
) -> Result<Option<OwnedFd>, BackupError> {
    let path = path.as_ref();
    match rustix::fs::openat(at, path, DIRECTORY, Mode::empty()) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(BackupError::file("open", path.display().to_string())(error.into())),
    }
}

/// Adds what is kept of a sandbox. What is destroyed meanwhile may be there in part.
fn sandbox<W: Write>(
    pack: &mut Pack<W>,
    root: &OwnedFd,
    packs: Option<&OwnedFd>,
    object: &ObjectId,
) -> Result<(), BackupError> {
    let name = object.to_string();
    let path = format!("{SANDBOXES}/{name}");
    let Some(dir) = open(root, &name)? else { return Ok(()) };
    pack.place(&dir, path.as_bytes())?;
    for part in PARTS {
        let below = format!("{path}/{part}");
        match packs {
            Some(packs) if part == CONTEXTS => pack.tree(packs, &name, &below)?,
            _ if part == CONTEXTS => {}
            _ => pack.tree(&dir, part, &below)?,
        }
    }
    Ok(())
}

/// What became of a sandbox since the copy was made.
fn gone(was: Life, is: Option<Life>) -> Option<Gone> {
    match is {
        // Whoever begins with the copy goes on with it.
        Some(is) if is == was => None,
        Some(is) if is.created_at == was.created_at && !is.destroying => {
            (is.expired && !was.expired).then_some(Gone::Expired)
        }
        _ => Some(Gone::Destroyed),
    }
}

/// Adds a file of the backup's own.
fn own<W: Write>(pack: &mut Pack<W>, dir: &Path, name: &str) -> Result<(), BackupError> {
    let file = File::open(dir.join(name)).map_err(BackupError::file("open", name))?;
    pack.file(&file, name.as_bytes())
}
