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
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use store::{FreshPack, WrittenPack};
use tokio::sync::Notify;
use types::{ObjectId, Result};

/// How long packs gather before their files are synced.
const GATHER: Duration = Duration::from_secs(1);

/// Packs whose files are to be synced.
pub(super) struct Fresh {
    boot: String,
    waiting: Mutex<HashMap<(ObjectId, String, String), Waiting>>,
    wake: Notify,
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
        Self { boot, waiting: Mutex::default(), wake: Notify::new() }
    }
}

impl Fresh {
    fn waiting(&self) -> MutexGuard<'_, HashMap<(ObjectId, String, String), Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is stored of a pack that was written.
    pub fn written(&self, pack: &mut NewPack, hash: String) -> WrittenPack {
        let (file, boot) = (pack.file().to_owned(), self.boot.clone());
        WrittenPack { file, hash, boot, bytes: pack.take_fresh() }
    }

    /// A pack of this server.
    pub fn pack(&self, object: ObjectId, context: &str, file: &str, hash: &str) -> FreshPack {
        let (context, file) = (context.to_owned(), file.to_owned());
        FreshPack { object, context, file, hash: hash.to_owned(), boot: self.boot.clone() }
    }

    /// This one, in this directory, is to be synced.
    pub fn note(&self, pack: FreshPack, dir: Arc<OwnedFd>) {
        let key = (pack.object, pack.context.clone(), pack.file.clone());
        self.waiting().insert(key, Waiting { pack, dir });
        self.wake.notify_one();
    }
}

/// Takes up what earlier servers left: files that a power cut may have taken are written again. Done
/// before the first request.
pub(crate) async fn take_up(world: &World) -> Result<()> {
    let fresh = &world.code.fresh;
    for pack in world.store.fresh_packs().await.map_err(errors::of_store)? {
        match restore(world, &pack).await {
            Ok(dir) => fresh.note(pack, dir),
            // Whoever needs it is told that it is damaged, and the next start tries again.
            Err(error) => {
                let FreshPack { object, context, file, .. } = &pack;
                tracing::error!(%object, context, file, %error, "a pack could not be written again");
            }
        }
    }
    Ok(())
}

/// Has the file of a pack hold what it is to; gives its directory.
async fn restore(world: &World, pack: &FreshPack) -> Result<Arc<OwnedFd>> {
    let dir = Arc::new(packs::directory(world, &pack.object, &pack.context).await?);
    if pack.boot == world.code.fresh.boot && !pack.boot.is_empty() {
        return Ok(dir);
    }
    if let Some(bytes) = world.store.fresh_bytes(pack).await.map_err(errors::of_store)? {
        let (into, file) = (dir.clone(), pack.file.clone());
        let written = tokio::task::spawn_blocking(move || write(&into, &file, &bytes));
        let written = written.await.unwrap_or_else(|e| Err(io::Error::other(e)));
        written.map_err(|e| packs::of_io("writing a pack again", e))?;
    }
    Ok(dir)
}

fn write(dir: &OwnedFd, file: &str, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let out = File::from(rustix::fs::openat(dir, file, flags, Mode::RUSR | Mode::WUSR)?);
    out.write_all_at(bytes, 0)?;
    out.set_len(bytes.len() as u64)
}

/// Syncs the files of packs a while after they were written, for as long as there is a world.
pub(crate) async fn settle(world: Weak<World>) {
    let Some(fresh) = world.upgrade().map(|world| world.code.fresh.clone()) else { return };
    loop {
        fresh.wake.notified().await;
        tokio::time::sleep(GATHER).await;
        let Some(world) = world.upgrade() else { return };
        let waiting = std::mem::take(&mut *fresh.waiting());
        let synced = tokio::task::spawn_blocking(move || {
            waiting.into_values().filter(is_synced).collect::<Vec<_>>()
        });
        let synced = synced.await.unwrap_or_default();
        if synced.is_empty() {
            continue;
        }
        let packs = synced.iter().map(|waiting| waiting.pack.clone()).collect();
        match world.store.packs_synced(packs).await {
            Ok(()) => {}
            Err(store::Error::Closed) => return,
            Err(error) => {
                tracing::warn!(%error, "that packs are on the disk is not noted yet");
                let mut again = fresh.waiting();
                for one in synced {
                    let key = (one.pack.object, one.pack.context.clone(), one.pack.file.clone());
                    again.entry(key).or_insert(one);
                }
                fresh.wake.notify_one();
            }
        }
    }
}

/// Syncs one; what is not there any more is as good.
fn is_synced(waiting: &Waiting) -> bool {
    let Waiting { pack, dir } = waiting;
    let sync = || {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(dir.as_fd(), &*pack.file, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            file => rustix::fs::fdatasync(file?)?,
        }
        rustix::fs::fsync(dir.as_fd())
    };
    let synced: rustix::io::Result<()> = sync();
    if let Err(error) = &synced {
        let FreshPack { object, context, file, .. } = pack;
        // It stays kept beside its context.
        tracing::error!(%object, context, file, %error, "a pack could not be synced");
    }
    synced.is_ok()
}
