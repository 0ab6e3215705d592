//! Deleting: out of reach at once by one rename, gone a little later.
//!
//! Trees are removed by flattening: each directory found is renamed into the trash itself and
//! taken later, so depth costs neither stack nor descriptors, and no path is ever walked. Names
//! and links that a sandbox made are never followed.

use crate::dirs;
use rustix::fs::{AtFlags, Dir, FileType, Mode};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// The trash of one data directory, with its thread.
pub(crate) struct Trash {
    dir: OwnedFd,
    wake: mpsc::SyncSender<()>,
}

/// Names in the trash are told apart by time and this.
static NEXT: AtomicU64 = AtomicU64::new(0);

fn fresh() -> String {
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{:x}-{n:x}-{:x}", now.map_or(0, |d| d.as_nanos()), std::process::id())
}

impl Trash {
    /// A trash over this directory. Its thread ends with it.
    pub fn new(dir: OwnedFd) -> io::Result<Self> {
        let (wake, woken) = mpsc::sync_channel(1);
        let own = dir.try_clone()?;
        std::thread::Builder::new().name("trash".into()).spawn(move || {
            while woken.recv().is_ok() {
                if let Err(error) = empty(own.as_fd()) {
                    tracing::warn!(%error, "the trash could not be emptied");
                }
            }
        })?;
        Ok(Self { dir, wake })
    }

    /// Moves a file or tree into the trash. What is not there is fine.
    pub fn throw(&self, parent: impl AsFd, name: &str) -> io::Result<()> {
        match rustix::fs::renameat(parent, name, &self.dir, fresh()) {
            Ok(()) | Err(Errno::NOENT) => {
                self.sweep();
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes what is in the trash, in the background.
    pub fn sweep(&self) {
        // A full channel means that a sweep is due already.
        let _ = self.wake.try_send(());
    }
}

/// Removes all that is in a directory; the directory itself stays.
pub(crate) fn empty(dir: BorrowedFd<'_>) -> io::Result<()> {
    loop {
        let names = dirs::names(dir, 4096)?;
        if names.is_empty() {
            return Ok(());
        }
        let mut last = None;
        let mut gone = 0;
        for name in names {
            match remove(dir, &name) {
                Ok(()) => gone += 1,
                Err(error) => last = Some(error),
            }
        }
        if gone == 0 {
            return Err(last.map_or_else(|| io::Error::other("nothing could go"), Into::into));
        }
    }
}

/// Removes one entry; the directories in it move up into `trash`.
fn remove(trash: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(trash, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    // Without root, a directory of mode 0 can be neither read nor moved.
    let _ = rustix::fs::chmodat(trash, name, Mode::from_raw_mode(0o700), AtFlags::empty());
    for _ in 0..8 {
        match rustix::fs::unlinkat(trash, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        let dir = dirs::open_at(trash, name)
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let inner = entry.file_name();
            if inner.to_bytes() == b"." || inner.to_bytes() == b".." {
                continue;
            }
            if entry.file_type() != FileType::Directory
                && rustix::fs::unlinkat(&dir, inner, AtFlags::empty()).is_ok()
            {
                continue;
            }
            if rustix::fs::unlinkat(&dir, inner, AtFlags::REMOVEDIR).is_ok() {
                continue;
            }
            let mode = Mode::from_raw_mode(0o700);
            let _ = rustix::fs::chmodat(&dir, inner, mode, AtFlags::empty());
            let _ = rustix::fs::renameat(&dir, inner, trash, fresh());
        }
    }
    Err(Errno::NOTEMPTY)
}

#[cfg(test)]
pub(crate) mod tests;
