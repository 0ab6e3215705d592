//! Packs that are not on the disk by themselves yet.
//!
//! A small pack is written and not synced: what it holds is committed beside the context's row, so
//! that one sync makes both durable. A moment later, and beside all work, its file is synced, and
//! what was kept of it goes. While the machine runs the file is there, however the server ended; after
//! a power cut, which the boot id tells, the next start writes it again before anybody asks for it.

use super::packs;
use crate::errors;
use crate::world::World;
use interpreters::NewPack;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use store::{FreshPack, WrittenPack};
use tokio::sync::Notify;
use types::{ObjectId, Result};

/// How long packs gather before their files are synced.
const GATHER: Duration = Duration::from_secs(1);

/// Most that wait; each holds a descriptor, and whoever comes then syncs its own.
const WAITING: usize = 256;
/// How many are synced between two commits.
const AT_ONCE: usize = 64;

/// Packs whose files are to be synced.
pub(super) struct Fresh {
    boot: String,
    waiting: Mutex<HashMap<(ObjectId, String, String), Waiting>>,
    wake: Notify,
    /// There are many.
    hurry: Notify,
}

fn key(pack: &FreshPack) -> (ObjectId, String, String) {
    (pack.object, pack.context.clone(), pack.file.clone())
}

/// One of them.
struct Waiting {
    pack: FreshPack,
    dir: Arc<OwnedFd>,
}

impl Default for Fresh {
    fn default() -> Self {
        // Where it is not known, each start takes the files for lost, which costs time alone.
        let boot = containers::boot_id().unwrap_or_default();
        Self { boot, waiting: Mutex::default(), wake: Notify::new(), hurry: Notify::new() }
    }
}

impl Fresh {
    fn waiting(&self) -> MutexGuard<'_, HashMap<(ObjectId, String, String), Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is stored of a pack that was written. Where too many wait to be synced it is synced now.
    /// Errors: those of an execution that cannot be saved.
    pub async fn written(&self, pack: &mut NewPack, hash: String) -> Result<WrittenPack> {
        if self.waiting().len() >= WAITING {
            pack.sync().await.map_err(|error| super::not_saved(&error))?;
        }
        let (file, boot) = (pack.file().to_owned(), self.boot.clone());
        Ok(WrittenPack { file, hash, boot, bytes: pack.take_fresh() })
    }

    /// A pack of this server.
    pub fn pack(&self, object: ObjectId, context: &str, file: &str, hash: &str) -> FreshPack {
        let (context, file) = (context.to_owned(), file.to_owned());
        FreshPack { object, context, file, hash: hash.to_owned(), boot: self.boot.clone() }
    }

    /// This one, in this directory, is to be synced.
    pub fn note(&self, pack: FreshPack, dir: Arc<OwnedFd>) {
        let mut waiting = self.waiting();
        waiting.insert(key(&pack), Waiting { pack, dir });
        self.wake.notify_one();
        if waiting.len() >= WAITING / 2 {
            self.hurry.notify_one();
        }
    }
}

/// Takes up what earlier servers left: files that a power cut may have taken are written again, and
/// all are synced. Done before the first request.
pub(crate) async fn take_up(world: &World) -> Result<()> {
    let all = world.store.fresh_packs().await.map_err(errors::of_store)?;
    for packs in all.chunks(AT_ONCE) {
        let mut whole = Vec::new();
        for pack in packs {
            match restore(world, pack).await {
                Ok(()) => whole.push(pack.clone()),
                // Whoever needs it is told that it is damaged, and the next start tries again.
                Err(error) => {
                    let FreshPack { object, context, file, .. } = pack;
                    tracing::error!(%object, context, file, %error, "a pack could not be written again");
                }
            }
        }
        if let Err(error) = world.store.packs_synced(whole).await {
            tracing::warn!(%error, "that packs are on the disk is not noted yet");
        }
    }
    Ok(())
}

/// Has the file of a pack hold what it is to, on the disk.
async fn restore(world: &World, pack: &FreshPack) -> Result<()> {
    let dir = packs::directory(world, &pack.object, &pack.context).await?;
    let bytes = match pack.boot == world.code.fresh.boot && !pack.boot.is_empty() {
        true => None,
        false => world.store.fresh_bytes(pack).await.map_err(errors::of_store)?,
    };
    let file = pack.file.clone();
    let restored = tokio::task::spawn_blocking(move || {
        if let Some(bytes) = bytes {
            write(&dir, &file, &bytes)?;
        }
        sync(&dir, &file)
    });
    let restored = restored.await.unwrap_or_else(|e| Err(io::Error::other(e)));
    restored.map_err(|e| packs::of_io("writing a pack again", e))
}

/// Writes it as a file of its own: what is there may be another context's too.
fn write(dir: &OwnedFd, file: &str, bytes: &[u8]) -> io::Result<()> {
    let new = format!("{file}.new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let out = File::from(rustix::fs::openat(dir, &*new, flags, Mode::RUSR | Mode::WUSR)?);
    out.write_all_at(bytes, 0)?;
    out.set_len(bytes.len() as u64)?;
    out.sync_data()?;
    Ok(rustix::fs::renameat(dir, &*new, dir, file)?)
}

/// Syncs one; what is not there any more is as good.
fn sync(dir: &OwnedFd, file: &str) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(dir, file, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        file => rustix::fs::fdatasync(file?)?,
    }
    Ok(rustix::fs::fsync(dir)?)
}

/// Syncs the files of packs a while after they were written, for as long as there is a world.
pub(crate) async fn settle(world: Weak<World>) {
    let Some(fresh) = world.upgrade().map(|world| world.code.fresh.clone()) else { return };
    loop {
        fresh.wake.notified().await;
        tokio::select! {
            () = tokio::time::sleep(GATHER) => {}
            () = fresh.hurry.notified() => {}
        }
        let Some(world) = world.upgrade() else { return };
        let mut waiting: Vec<Waiting> =
            std::mem::take(&mut *fresh.waiting()).into_values().collect();
        while !waiting.is_empty() {
            let some = waiting.split_off(waiting.len().saturating_sub(AT_ONCE));
            match settled(&world, some).await {
                Ok(()) => {}
                Err((store::Error::Closed, _)) => return,
                Err((error, some)) => {
                    tracing::warn!(%error, "that packs are on the disk is not noted yet");
                    waiting.extend(some);
                    let mut again = fresh.waiting();
                    for one in waiting.drain(..) {
                        again.entry(key(&one.pack)).or_insert(one);
                    }
                    fresh.wake.notify_one();
                }
            }
        }
    }
}

/// Syncs some, and notes it; gives back what could not be noted.
async fn settled(
    world: &World,
    some: Vec<Waiting>,
) -> std::result::Result<(), (store::Error, Vec<Waiting>)> {
    let work = move || some.into_iter().partition::<Vec<_>, _>(is_synced);
    let (synced, lost) = tokio::task::spawn_blocking(work).await.unwrap_or_default();
    let packs = |some: &[Waiting]| some.iter().map(|one| one.pack.clone()).collect::<Vec<_>>();
    let noted = async {
        if !lost.is_empty() {
            world.store.packs_lost(packs(&lost)).await?;
        }
        match synced.is_empty() {
            true => Ok(()),
            false => world.store.packs_synced(packs(&synced)).await,
        }
    };
    noted.await.map_err(|error| (error, synced))
}

fn is_synced(waiting: &Waiting) -> bool {
    let Waiting { pack, dir } = waiting;
    let synced = sync(dir, &pack.file);
    if let Err(error) = &synced {
        let FreshPack { object, context, file, .. } = pack;
        // It stays kept beside its context, and the next start writes it again.
        tracing::error!(%object, context, file, %error, "a pack could not be synced");
    }
    synced.is_ok()
}
