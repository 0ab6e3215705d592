//! The directory of a context's packs, seen from the server.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;

/// Packs of at most so many bytes are not synced when they are written: see [`NewPack::take_fresh`].
const FRESH: usize = 64 << 10;

/// The directory of a context's packs.
#[derive(Debug, Clone)]
pub struct PackDir(watch::Receiver<Option<Arc<OwnedFd>>>);

/// Where a directory is told that is being made.
#[derive(Debug)]
pub struct PackPlace(watch::Sender<Option<Arc<OwnedFd>>>);

impl PackPlace {
    /// This is it.
    pub fn is(self, dir: OwnedFd) {
        self.0.send_replace(Some(Arc::new(dir)));
    }
}

impl PackDir {
    /// This directory.
    pub fn new(dir: OwnedFd) -> Self {
        let (packs, place) = Self::later();
        place.is(dir);
        packs
    }

    /// No directory: for executions without a context.
    pub fn none() -> Self {
        Self::later().0
    }

    /// One that is told while the code runs: a context that was never saved needs it at its end alone.
    pub fn later() -> (Self, PackPlace) {
        let (place, dir) = watch::channel(None);
        (Self(dir), PackPlace(place))
    }

    async fn dir(&self) -> io::Result<Arc<OwnedFd>> {
        let none = || io::Error::other("this execution has no place for packs");
        let mut told = self.0.clone();
        let dir = told.wait_for(Option::is_some).await.map_err(|_| none())?;
        dir.clone().ok_or_else(none)
    }

    /// Opens packs for reading, in order. Errors: those of the first that cannot be, with its name.
    pub(crate) async fn open(
        &self,
        files: Vec<String>,
    ) -> Result<Vec<OwnedFd>, (String, io::Error)> {
        let dir = match self.dir().await {
            Ok(dir) => dir,
            Err(error) => return Err((files.into_iter().next().unwrap_or_default(), error)),
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = tokio::task::spawn_blocking(move || {
            let one = |file: String| {
                let opened = rustix::fs::openat2(&*dir, &*file, flags, Mode::empty(), resolve);
                let opened = opened.and_then(|fd| {
                    let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
                    if kind.is_file() { Ok(fd) } else { Err(rustix::io::Errno::ISDIR) }
                });
                opened.map_err(|e| (file, e.into()))
            };
            files.into_iter().map(one).collect()
        });
        opened.await.unwrap_or_else(|e| Err((String::new(), io::Error::other(e))))
    }

    /// Writes the next part of a pack. The first, for which there is no `begun` yet, goes over a file
    /// that nothing names any more, the spare, else under a name that no other has.
    pub(crate) async fn write(
        &self,
        begun: Option<Begun>,
        seq: u64,
        part: Vec<u8>,
        spare: Option<String>,
    ) -> io::Result<Begun> {
        let dir = self.dir().await?;
        // Also where nothing is synced: who writes while others fill the disk is made to wait.
        blocking(move || match begun {
            Some(begun) => begun.write(&part),
            None => Begun::new(&dir, seq, spare)?.write(&part),
        })
        .await
    }

    /// Writes the last part of a pack, or all of it. A large one and its name are synced.
    pub(crate) async fn finish(
        &self,
        begun: Option<Begun>,
        seq: u64,
        last: Vec<u8>,
        spare: Option<String>,
    ) -> io::Result<NewPack> {
        let dir = self.dir().await?;
        blocking(move || {
            let fresh = begun.is_none() && last.len() <= FRESH;
            let begun = match begun {
                Some(begun) => begun,
                None => Begun::new(&dir, seq, spare)?,
            };
            let Begun { mut pack, file, written, had } = begun.write(&last)?;
            if had > written {
                file.set_len(written)?;
            }
            if fresh {
                pack.fresh = Some(last);
                return Ok(pack);
            }
            // Its name may never have been synced, as a small one began with it.
            sync(&dir, &file)?;
            Ok(pack)
        })
        .await
    }
}

/// A pack of which some is written.
pub(crate) struct Begun {
    pack: NewPack,
    file: File,
    /// Bytes of it so far.
    pub written: u64,
    /// How long the file was, bytes.
    had: u64,
}

impl Begun {
    fn new(dir: &Arc<OwnedFd>, seq: u64, spare: Option<String>) -> io::Result<Self> {
        if let Some(spare) = spare
            && let Some(over) = Self::over(dir, spare)?
        {
            return Ok(over);
        }
        let mut random = [0u8; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let file = format!("{seq}-{:016x}.pack", u64::from_le_bytes(random));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir, &*file, flags, Mode::from_raw_mode(0o600))?;
        let pack = NewPack { dir: Some(dir.clone()), file, fresh: None };
        Ok(Self { pack, file: fd.into(), written: 0, had: 0 })
    }

    /// Neither a name nor, most times, room has to be found and synced then. `None`: it cannot be
    /// had, or is another context's too; then it is gone from here.
    fn over(dir: &Arc<OwnedFd>, file: String) -> io::Result<Option<Self>> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let fd = match rustix::fs::openat2(&**dir, &*file, flags, Mode::empty(), resolve) {
            Ok(fd) => fd,
            Err(_) => return Ok(None),
        };
        // Whatever comes of it, nothing else is to be made of this file.
        let pack = NewPack { dir: Some(dir.clone()), file, fresh: None };
        let stat = rustix::fs::fstat(&fd)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() || stat.st_nlink != 1 {
            return Ok(None);
        }
        let had = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(Some(Self { pack, file: fd.into(), written: 0, had }))
    }

    fn write(mut self, part: &[u8]) -> io::Result<Self> {
        self.file.write_all_at(part, self.written)?;
        self.written += part.len() as u64;
        Ok(self)
    }
}

fn sync(dir: &OwnedFd, file: &File) -> io::Result<()> {
    file.sync_data()?;
    // Most file systems have written the name with it, and then this is nothing.
    Ok(rustix::fs::fsync(dir)?)
}

/// In this thread where it may block, as handing the work to another costs as much as a sync.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?,
    }
}

/// A pack that was written and that nothing names yet. Dropping it removes it.
#[derive(Debug)]
pub struct NewPack {
    /// `None`: it stays.
    dir: Option<Arc<OwnedFd>>,
    file: String,
    fresh: Option<Vec<u8>>,
}

impl NewPack {
    /// Its file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What is in it, where it was not synced: whoever names it has to keep that until it is. One
    /// sync is saved so, as the name has to be synced anyway.
    pub fn take_fresh(&mut self) -> Option<Vec<u8>> {
        self.fresh.take()
    }

    /// Syncs it and its name after all: nobody has to keep what is in it.
    ///
    /// # Errors
    /// Of the file system.
    pub async fn sync(&mut self) -> io::Result<()> {
        if let (Some(dir), Some(_)) = (self.dir.clone(), self.fresh.take()) {
            let file = self.file.clone();
            blocking(move || {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                sync(&dir, &rustix::fs::openat(&*dir, file, flags, Mode::empty())?.into())
            })
            .await?;
        }
        Ok(())
    }

    /// Something durable names it now: it stays. Gives the directory that it is in.
    pub fn keep(mut self) -> Option<Arc<OwnedFd>> {
        self.dir.take()
    }
}

impl Drop for NewPack {
    fn drop(&mut self) {
        if let Some(dir) = self.dir.take()
            && let Err(error) = rustix::fs::unlinkat(dir.as_fd(), &*self.file, AtFlags::empty())
        {
            tracing::warn!(file = self.file, %error, "a pack that nothing names stays");
        }
    }
}

#[cfg(test)]
mod tests;
