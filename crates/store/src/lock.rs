//! The lock on the directory. It is the kernel's (`flock`), so it ends with its process, however
//! that ends; the descriptor is close-on-exec, so no child keeps it.

use crate::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// A process that is on its way out gets this long to be gone.
const WAIT: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(20);

/// The lock's file in a data directory.
pub(crate) const NAME: &str = "lock";

/// Held until dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| Error::file("open", path, e))
}

/// Whether the file is the one of this name still: whoever gave a directory up may have removed
/// it.
fn stands(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(own), Ok(named)) => (own.dev(), own.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

impl Lock {
    /// Takes a data directory that is there, for a work on it as a whole. Blocks up to 2 s.
    /// Errors: `Locked`, `File`.
    pub fn of(dir: &Path) -> Result<Self> {
        Self::take(&dir.join(NAME))
    }

    pub(crate) fn take(path: &Path) -> Result<Self> {
        let mut file = open(path)?;
        let until = Instant::now() + WAIT;
        loop {
            match file.try_lock() {
                Ok(()) if stands(&file, path) => break,
                Ok(()) => file = open(path)?,
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(STEP);
                }
                Err(TryLockError::WouldBlock) => {
                    let mut text = String::new();
                    let _ = file.read_to_string(&mut text);
                    return Err(Error::Locked { path: path.into(), pid: text.trim().parse().ok() });
                }
                Err(TryLockError::Error(e)) => return Err(Error::file("lock", path, e)),
            }
        }
        // The pid is for people; a full disk must not keep the store from opening.
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        if let Err(error) = write(&mut file) {
            tracing::warn!(%error, path = %path.display(), "cannot note the pid in the lock file");
        }
        Ok(Self { _file: file })
    }
}
