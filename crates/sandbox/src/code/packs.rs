//! The files of contexts' memory: `contexts/<context id>/<pack>`.
//!
//! A pack is published before the row that names it is stored, and removed after no row names it
//! any more; so a crash leaves files too many, never too few. Only who has the context's turn
//! publishes or removes.

use super::live::Queue;
use super::of_interpreters;
use crate::errors;
use crate::world::World;
use interpreters::pack::PackError;
use interpreters::{PackRef, Snapshot};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use store::{CheckpointRow, ContextRow, SnapshotRow};
use types::{ObjectId, Result};

/// Largest pack that is kept to be written over, bytes.
const SPARE: u64 = 256 << 10;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The manifest of a stored snapshot.
pub(super) fn manifest(row: &SnapshotRow) -> Result<Snapshot> {
    serde_json::from_str(&row.manifest).map_err(|e| errors::internal("reading a snapshot", e))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(std::io::Error::other(e)))
}

/// The directory of all contexts of a sandbox, made where it is not there.
pub(super) async fn contexts(world: &World, object: &ObjectId) -> Result<OwnedFd> {
    let dir = world.engine.contexts_dir(object).await;
    dir.map_err(|e| errors::of_engine_work("making a directory for contexts", &e))
}

/// The directory of one context, made where it is not there.
pub(super) async fn directory(world: &World, object: &ObjectId, id: &str) -> Result<OwnedFd> {
    ensure(&contexts(world, object).await?, id).await
}

/// The same below the directory of all contexts.
pub(super) async fn ensure(all: &OwnedFd, id: &str) -> Result<OwnedFd> {
    let failed = |e| of_io("making a context's directory", e);
    let (all, id) = (all.try_clone().map_err(failed)?, id.to_owned());
    blocking(move || make(&all, &id)).await.map_err(failed)
}

fn make(all: &OwnedFd, id: &str) -> std::io::Result<OwnedFd> {
    match rustix::fs::openat(all, id, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => {}
        opened => return Ok(opened?),
    }
    match rustix::fs::mkdirat(all, id, Mode::RWXU) {
        // That the directory itself survives a power cut is part of every promise about it.
        Ok(()) => rustix::fs::fsync(all)?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(rustix::fs::openat(all, id, DIRECTORY, Mode::empty())?)
}

/// Full disks have their own error.
pub(super) fn of_io(what: &str, error: std::io::Error) -> types::Error {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded => errors::of_store(store::Error::Full),
        _ => errors::internal(what, error),
    }
}

/// Shares the packs of a snapshot with another context. Errors: `SNAPSHOT_CORRUPT`, as an execution
/// has it, where one is not there.
pub(super) async fn share(
    world: &World,
    object: &ObjectId,
    from: &str,
    to: &str,
    snapshot: &Snapshot,
) -> Result<()> {
    let source = directory(world, object, from).await?;
    let target = directory(world, object, to).await?;
    let packs = snapshot.packs.clone();
    let shared = blocking(move || {
        for pack in packs {
            let file = match sound(&source, &pack)? {
                Ok(file) => file,
                Err(error) => return Ok(Err(error)),
            };
            // It may be fresh in the other context, and nobody looks after it here.
            file.sync_data()?;
            rustix::fs::linkat(&source, &*pack.file, &target, &*pack.file, AtFlags::empty())?;
        }
        rustix::fs::fsync(&target)?;
        Ok(Ok(()))
    });
    let shared = shared.await.map_err(|e| of_io("sharing a context's memory", e))?;
    shared.map_err(|error| of_interpreters(error, Some(from)))
}

/// Looks whether a context can be made what it was in a snapshot. Errors: `SNAPSHOT_CORRUPT`, as an
/// execution has it.
pub(super) async fn check(
    world: &World,
    object: &ObjectId,
    id: &str,
    snapshot: &Snapshot,
) -> Result<()> {
    let (dir, packs) = (directory(world, object, id).await?, snapshot.packs.clone());
    let checked = blocking(move || {
        for pack in packs {
            if let Err(error) = sound(&dir, &pack)? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    });
    let checked = checked.await.map_err(|e| of_io("reading a context's memory", e))?;
    checked.map_err(|error| of_interpreters(error, Some(id)))
}

/// The file of a pack where it is what was written; the inner error says what it is instead.
fn sound(
    dir: &OwnedFd,
    pack: &PackRef,
) -> std::io::Result<std::result::Result<File, interpreters::Error>> {
    let unfit = |what| Ok(Err(interpreters::Error::Pack { file: pack.file.clone(), what }));
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = match rustix::fs::openat(dir, &*pack.file, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(error @ (Errno::NOENT | Errno::LOOP)) => {
            return unfit(std::io::Error::from(error).to_string());
        }
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return unfit("it is no file".to_owned());
    }
    match pack.check(&mut file) {
        Ok(()) => Ok(Ok(file)),
        Err(PackError::Read(what)) => Err(std::io::Error::other(what)),
        Err(what) => unfit(what.to_string()),
    }
}

/// Packs that the context's row does not name any more go, unless a checkpoint names them; the
/// last one stays to be written over by the next execution. What cannot be removed is found again
/// when the sandbox's code is next used anew.
pub(super) async fn discard(
    world: &World,
    object: &ObjectId,
    id: &str,
    queue: &Queue,
    dir: &OwnedFd,
    old: Vec<PackRef>,
) {
    let Some(_leave) = world.code.keeping.leave(object, id) else { return };
    let discarded = async {
        let named = match queue.kept() {
            Some(named) => named,
            None => {
                let kept = world.store.checkpoints(object, id).await.map_err(errors::of_store)?;
                let named = Arc::new(named(None, &kept.unwrap_or_default())?);
                queue.set_kept(named.clone());
                named
            }
        };
        let mut old = old;
        old.retain(|pack| !named.contains(pack.file.as_bytes()));
        // A large one would take room for the sake of little.
        let spare = old.iter().position(|pack| pack.bytes <= SPARE).map(|at| old.swap_remove(at));
        let mut old: Vec<String> = old.into_iter().map(|pack| pack.file).collect();
        old.extend(spare.and_then(|spare| queue.set_spare(spare.file)));
        if old.is_empty() {
            return Ok(());
        }
        let failed = |e| errors::internal("removing packs", e);
        let dir = dir.try_clone().map_err(failed)?;
        let work = move || old.iter().try_for_each(|file| unlink(&dir, &**file, AtFlags::empty()));
        blocking(work).await.map_err(failed)
    };
    if let Err(error) = discarded.await {
        tracing::warn!(%object, context = id, %error, "old packs stay for now");
    }
}

/// Removes packs that were kept to be written over, when nobody is there to do it any more. Blocks.
pub(super) fn remove_spares(spares: Vec<(OwnedFd, String)>) {
    for (dir, file) in spares {
        if let Err(error) = unlink(&dir, &*file, AtFlags::empty()) {
            tracing::debug!(file, %error, "an old pack stays for now");
        }
    }
}

/// Removes the packs of a context that no row names. What cannot be removed waits for the next
/// time.
pub(super) async fn sweep(world: &World, object: &ObjectId, id: &str) {
    let Some(leave) = world.code.keeping.leave(object, id) else { return };
    let swept = async {
        let row = world.store.context(object, id).await.map_err(errors::of_store)?;
        let Some(row) = row else {
            drop(leave);
            return remove(world, object, id).await;
        };
        let checkpoints = world.store.checkpoints(object, id).await.map_err(errors::of_store)?;
        let named = named(Some(&row), &checkpoints.unwrap_or_default())?;
        let dir = directory(world, object, id).await?;
        let swept = blocking(move || remove_but(&dir, &named)).await;
        drop(leave);
        swept.map_err(|e| errors::internal("removing packs", e))
    };
    if let Err(error) = swept.await {
        tracing::warn!(%object, context = id, %error, "old packs stay for now");
    }
}

/// Removes the directory of a context that is no more.
pub(super) async fn remove(world: &World, object: &ObjectId, id: &str) -> Result<()> {
    let _leave = world.code.keeping.leave_at_last().await;
    let (all, id) = (contexts(world, object).await?, id.to_owned());
    let removed = blocking(move || remove_tree(&all, &id)).await;
    removed.map_err(|e| errors::internal("removing a context's directory", e))
}

fn named(row: Option<&ContextRow>, checkpoints: &[CheckpointRow]) -> Result<BTreeSet<Vec<u8>>> {
    let own = row.and_then(|row| row.snapshot.as_ref());
    let kept = checkpoints.iter().filter_map(|kept| kept.snapshot.as_ref()).chain(own);
    let mut named = BTreeSet::new();
    for snapshot in kept {
        named.extend(manifest(snapshot)?.packs.into_iter().map(|pack| pack.file.into_bytes()));
    }
    Ok(named)
}

fn names(dir: impl AsFd) -> std::io::Result<Vec<std::ffi::CString>> {
    let entries = Dir::read_from(dir)?.map(|entry| Ok(entry?.file_name().to_owned()));
    let entries = entries.filter(|name: &std::io::Result<std::ffi::CString>| {
        !name.as_ref().is_ok_and(|name| matches!(name.to_bytes(), b"." | b".."))
    });
    entries.collect()
}

fn remove_but(dir: &OwnedFd, named: &BTreeSet<Vec<u8>>) -> std::io::Result<()> {
    for name in names(dir)? {
        if !named.contains(name.to_bytes()) {
            unlink(dir, &name, AtFlags::empty())?;
        }
    }
    Ok(())
}

fn remove_tree(all: &OwnedFd, id: &str) -> std::io::Result<()> {
    let dir = match rustix::fs::openat(all, id, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    remove_but(&dir, &BTreeSet::new())?;
    unlink(all, id, AtFlags::REMOVEDIR)
}

fn unlink(dir: &OwnedFd, name: impl rustix::path::Arg, flags: AtFlags) -> std::io::Result<()> {
    match rustix::fs::unlinkat(dir, name, flags) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes what a crash left: directories of contexts that are no more, and packs that no row
/// names. Done before the first use of a sandbox's code.
pub(super) async fn tidy(world: &World, object: ObjectId) -> Result<()> {
    let rows = world.store.contexts(&object).await.map_err(errors::of_store)?;
    let all = contexts(world, &object).await?;
    let found = blocking(move || names(&all)).await;
    let found = found.map_err(|e| errors::internal("reading a directory of contexts", e))?;
    for name in found {
        let known = name.to_str().ok().filter(|name| rows.iter().any(|row| row.id == **name));
        match (known, name.to_str()) {
            (Some(id), _) => sweep(world, &object, id).await,
            (None, Ok(id)) => {
                if let Err(error) = remove(world, &object, id).await {
                    tracing::warn!(%object, context = id, %error, "a left directory stays");
                }
            }
            (None, Err(_)) => {}
        }
    }
    Ok(())
}
