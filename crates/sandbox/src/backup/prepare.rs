//! What has to be taken at one moment: a copy of the store, and a second name for each pack that
//! it names. Short, so that nothing waits for the rest of a backup.

use super::BackupError;
use super::manifest::TOLD;
use interpreters::Snapshot;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use store::{Copy, Store};
use types::ObjectId;

/// The store's copy.
pub(super) const STORE: &str = "store.db";
/// The directory of all that is kept of sandboxes beside their rows.
pub(super) const SANDBOXES: &str = "sandboxes";
/// Packs, below the prepared directory.
pub(super) const PACKS: &str = "packs";
/// How the directory is named in which all this stands for as long as it is needed.
const PLACE: &str = ".backup-";
pub(super) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What was taken; it goes with this.
pub(super) struct Prepared {
    pub dir: tempfile::TempDir,
    /// The data directory.
    pub data: PathBuf,
    /// When, ms since the epoch.
    pub at_ms: i64,
    /// Packs that are not there.
    pub left_out: Vec<String>,
}

/// Takes it. While a server uses the directory no pack may go meanwhile.
pub(super) async fn prepare(
    store: &Store,
    data: &Path,
    at_ms: i64,
) -> Result<Prepared, BackupError> {
    let dir = tempfile::Builder::new().prefix(PLACE).tempdir_in(data);
    let dir = dir.map_err(BackupError::file("make a directory in", data.display().to_string()))?;
    let path = dir.path().join(STORE);
    store.copy_to(&path).await?;
    let data = data.to_owned();
    let linked = tokio::task::spawn_blocking(move || {
        let left_out = link_packs(&Copy::open(&path)?, &data, dir.path())?;
        Ok(Prepared { dir, data, at_ms, left_out })
    });
    linked.await.unwrap_or_else(|e| Err(BackupError::Out(std::io::Error::other(e))))
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

fn link_packs(copy: &Copy, data: &Path, place: &Path) -> Result<Vec<String>, BackupError> {
    let failed = |action| BackupError::file(action, "the packs of contexts");
    let sandboxes = match rustix::fs::openat(CWD, data.join(SANDBOXES), DIRECTORY, Mode::empty()) {
        Ok(sandboxes) => sandboxes,
        // No sandbox ever had anything.
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => return Err(BackupError::file("open", SANDBOXES)(error.into())),
    };
    let packs = place.join(PACKS);
    std::fs::create_dir(&packs).map_err(failed("keep"))?;
    let packs = rustix::fs::openat(CWD, &packs, DIRECTORY, Mode::empty());
    let packs = packs.map_err(|e| failed("keep")(e.into()))?;
    let mut left_out = Vec::new();
    copy.memories(|object, context, manifest| {
        let snapshot: Snapshot = match serde_json::from_str(&manifest) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                left_out.push(format!("{object}: context {context}: its manifest: {error}"));
                return Ok(());
            }
        };
        let link = link(&sandboxes, &packs, &object, &context, &snapshot);
        for missing in link.map_err(|e| failed("keep")(e.into()))? {
            if left_out.len() < TOLD {
                let name = format!("{SANDBOXES}/{object}/contexts/{context}/{missing}");
                left_out.push(format!("{name} is not there"));
            }
        }
        Ok::<(), BackupError>(())
    })?;
    Ok(left_out)
}

/// Gives the packs of one memory their second names; those that are not there come back.
fn link(
    sandboxes: &OwnedFd,
    packs: &OwnedFd,
    object: &ObjectId,
    context: &str,
    snapshot: &Snapshot,
) -> Result<Vec<String>, Errno> {
    let open = |at: &OwnedFd, name: &str| rustix::fs::openat(at, name, DIRECTORY, Mode::empty());
    let from = open(sandboxes, &object.to_string())
        .and_then(|dir| open(&dir, "contexts"))
        .and_then(|dir| open(&dir, context));
    let names = snapshot.packs.iter().map(|pack| pack.file.as_str());
    let from = match from {
        Ok(from) => from,
        Err(Errno::NOENT) => return Ok(names.map(str::to_owned).collect()),
        Err(error) => return Err(error),
    };
    let ensure = |at: &OwnedFd, name: &str| match rustix::fs::mkdirat(at, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => open(at, name),
        Err(error) => Err(error),
    };
    let to = ensure(&ensure(packs, &object.to_string())?, context)?;
    let mut missing = Vec::new();
    for name in names {
        match rustix::fs::linkat(&from, name, &to, name, rustix::fs::AtFlags::empty()) {
            // Checkpoints share packs.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => missing.push(name.to_owned()),
            Err(error) => return Err(error),
        }
    }
    Ok(missing)
}
