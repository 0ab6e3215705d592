//! The reserve file: space that is given back when the disk is full, so that what frees space,
//! and what must not be lost, can still be written.

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Enough for some hundred stops or removals, each with its event.
const SIZE: u64 = 8 << 20;
/// Given back at a time: what is free for us is free for others too, and they may take it first.
const STEP: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    /// Bytes that are set aside.
    held: u64,
}

impl Reserve {
    pub(crate) fn at(dir: &Path) -> Self {
        let path = dir.join("store.reserve");
        let held = std::fs::metadata(&path).map_or(0, |m| m.len().min(SIZE));
        Self { path, held }
    }

    /// Whether all of the space is set aside.
    pub(crate) fn held(&self) -> bool {
        self.held == SIZE
    }

    /// Whether any space is set aside.
    pub(crate) fn some(&self) -> bool {
        self.held > 0
    }

    /// Sets the space aside unless it is already. `false`: there is not enough.
    pub(crate) fn make(&mut self) -> bool {
        if !self.held() {
            match self.allocate() {
                Ok(()) => self.held = SIZE,
                Err(error) => {
                    tracing::debug!(%error, "no space to set aside");
                    self.keep(self.held);
                }
            }
        }
        self.held()
    }

    fn open(&self) -> std::io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)
    }

    fn allocate(&self) -> std::io::Result<()> {
        let mut file = self.open()?;
        match fallocate(&file, FallocateFlags::empty(), 0, SIZE) {
            Ok(()) => Ok(()),
            // Some file systems cannot; zeros written take the space as well.
            Err(rustix::io::Errno::OPNOTSUPP) => fill(&mut file, SIZE),
            Err(e) => Err(e.into()),
        }
    }

    /// Gives a part of the space back. `false`: there was nothing to give.
    pub(crate) fn give(&mut self) -> bool {
        let some = self.some();
        self.keep(self.held.saturating_sub(STEP));
        some
    }

    /// Gives back what is beyond `size` bytes, and what a failed attempt took.
    fn keep(&mut self, size: u64) {
        self.held = size;
        let done = match size {
            0 => std::fs::remove_file(&self.path),
            _ => self.open().and_then(|file| file.set_len(size)),
        };
        if let Err(error) = done
            && error.kind() != ErrorKind::NotFound
        {
            tracing::error!(%error, path = %self.path.display(), "cannot give space back");
        }
    }

    /// Finds out by trying whether the disk, or the quota on it, is full.
    pub(crate) fn disk_is_full(&self) -> bool {
        let path = self.path.with_extension("probe");
        let probe = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&path)?;
            fill(&mut file, 256 << 10)
        };
        let result: std::io::Result<()> = probe();
        let _ = std::fs::remove_file(&path);
        result.is_err_and(|e| matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
    }
}

fn fill(file: &mut File, size: u64) -> std::io::Result<()> {
    let block = [0; 64 << 10];
    for _ in 0..size / block.len() as u64 {
        file.write_all(&block)?;
    }
    // Delayed allocation shows a full disk only now.
    file.sync_data()
}
