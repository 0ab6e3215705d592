//! The lock on the directory. It is the kernel's (`flock`), so it ends with its process, however
//! that ends; the descriptor is close-on-exec, so no child keeps it.

use crate::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// A process that is on its way out gets this long to be gone.
const WAIT: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(20);

/// Held until dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|e| Error::file("open", path, e))?;
        let until = Instant::now() + WAIT;
        loop {
            match file.try_lock() {
                Ok(()) => break,
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
