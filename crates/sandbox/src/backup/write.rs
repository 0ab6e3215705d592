//! Writing a backup.

use super::manifest::{self, Manifest};
use super::tree::Pack;
use super::BackupError;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use store::Store;
use tar::{Builder, EntryType};

/// The format that is written.
pub(super) const FORMAT: u64 = 1;
pub(super) const HEAD: &str = "backup.json";
pub(super) const STORE: &str = "store.db";
pub(super) const SANDBOXES: &str = "sandboxes";
/// What is kept of a sandbox beside its row.
pub(super) const PARTS: [&str; 3] = ["workspace", "contexts", "logs"];
/// Of the directory in which the store's copy stands for as long as it is needed.
const PLACE: &str = ".backup-";

/// What went into an archive, or came out of it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// Sandboxes.
    pub sandboxes: u64,
    /// Their files, bytes.
    pub bytes: u64,
    /// The first hundred of the files that are left out, and why.
    pub left_out: Vec<String>,
}

/// A copy of the store, in a directory of its own that goes with it.
pub(super) struct Copied(tempfile::TempDir);

/// Copies the store, next to the directory of the sandboxes.
pub(super) async fn copy(store: &Store, sandboxes: &Path) -> Result<Copied, BackupError> {
    let data = sandboxes.parent().unwrap_or(sandboxes);
    let dir = tempfile::Builder::new().prefix(PLACE).tempdir_in(data);
    let dir = dir.map_err(BackupError::file("make a directory in", data.display().to_string()))?;
    store.copy_to(&dir.path().join(STORE)).await.map_err(BackupError::Store)?;
    Ok(Copied(dir))
}

/// Removes what a backup left that was killed. Only while no other process uses the directory.
pub fn clean(data: &Path) {
    for entry in std::fs::read_dir(data).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PLACE.as_bytes())
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::warn!(%error, path = %entry.path().display(), "a leftover stays");
        }
    }
}

/// Writes a backup of a data directory whose store is open and that no server uses.
pub async fn write(
    store: &Store,
    data: &Path,
    now_ms: i64,
    out: impl Write + Send + 'static,
) -> Result<Report, BackupError> {
    let sandboxes = data.join(SANDBOXES);
    let copy = copy(store, &sandboxes).await?;
    let work = tokio::task::spawn_blocking(move || write_copy(copy, &sandboxes, now_ms, out));
    work.await.unwrap_or_else(|e| Err(BackupError::Out(std::io::Error::other(e))))
}

/// Writes the archive of a copy.
pub(super) fn write_copy(
    copy: Copied,
    sandboxes: &Path,
    now_ms: i64,
    out: impl Write,
) -> Result<Report, BackupError> {
    let dir = copy.0.path();
    let mut zstd = zstd::Encoder::new(out, 1).map_err(BackupError::Out)?;
    zstd.include_checksum(true).map_err(BackupError::Out)?;
    let manifest = Manifest::new(dir).map_err(BackupError::file("make", "the manifest"))?;
    let mut pack =
        Pack { out: Builder::new(zstd), manifest, bytes: 0, left_out: Vec::new() };
    let head = serde_json::json!({
        "format": FORMAT,
        "release": env!("CARGO_PKG_VERSION"),
        "createdAt": types::iso8601(now_ms),
    });
    std::fs::write(dir.join(HEAD), head.to_string())
        .map_err(BackupError::file("write", HEAD))?;
    own(&mut pack, dir, HEAD)?;

    let path = dir.join(STORE);
    let mut store = store::Copy::open(&path).map_err(BackupError::Store)?;
    let objects = store.objects().map_err(BackupError::Store)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = match rustix::fs::open(sandboxes, flags, Mode::empty()) {
        Ok(root) => Some(root),
        // No sandbox ever had anything.
        Err(rustix::io::Errno::NOENT) => None,
        Err(e) => return Err(BackupError::file("open", SANDBOXES)(e.into())),
    };
    let mut gone = Vec::new();
    for (object, has_files) in &objects {
        let name = object.to_string();
        let Some(root) = &root else { break };
        let dir = rustix::fs::openat(root, &*name, flags | OFlags::NOFOLLOW, Mode::empty());
        let Ok(dir) = dir else {
            // It never had anything, or it was destroyed meanwhile.
            gone.extend(has_files.then_some(*object));
            continue;
        };
        for part in PARTS {
            let path = format!("{SANDBOXES}/{name}/{part}");
            pack.tree(&dir, part.as_bytes(), path.as_bytes())?;
        }
        // It was taken away while it was read: some of it may be missing.
        let same = rustix::fs::statat(root, &*name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        let own = rustix::fs::fstat(&dir);
        let stays = matches!((same, own), (Ok(a), Ok(b)) if a.st_ino == b.st_ino);
        if !stays {
            gone.push(*object);
        }
    }
    for object in &gone {
        pack.manifest.gone(object).map_err(BackupError::file("write", "the manifest"))?;
    }
    store.settle(&gone, now_ms).map_err(BackupError::Store)?;
    store.close().map_err(BackupError::Store)?;
    own(&mut pack, dir, STORE)?;

    let Pack { mut out, manifest, bytes, left_out } = pack;
    let (size, text) = manifest.finish().map_err(BackupError::file("read", "the manifest"))?;
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(size);
    out.append_data(&mut header, manifest::NAME, text).map_err(BackupError::Out)?;
    let zstd = out.into_inner().map_err(BackupError::Out)?;
    let mut out = zstd.finish().map_err(BackupError::Out)?;
    out.flush().map_err(BackupError::Out)?;
    Ok(Report { sandboxes: (objects.len() - gone.len()) as u64, bytes, left_out })
}

/// Adds a file of the backup's own.
fn own<W: Write>(pack: &mut Pack<W>, dir: &Path, name: &str) -> Result<(), BackupError> {
    let file = File::open(dir.join(name)).map_err(BackupError::file("open", name))?;
    pack.file(file, name.as_bytes())
}
