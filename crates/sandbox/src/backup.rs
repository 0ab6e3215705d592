//! Backups: the store, the workspaces and the memory of contexts in one archive, written while the
//! server works.
//!
//! ```text
//! backup.json                      which format, when
//! sandboxes/<object id>/…          workspace, contexts, logs
//! store.db                         a copy of the store, of before the files were read
//! manifest                         a hash of each file, and an end: without it, it is half a backup
//! ```
//!
//! It is a tar archive within zstd. The copy of the store is made first and no pack is removed
//! until all is read, so each context's row has its packs. What is written meanwhile may be in the
//! archive or not. A sandbox that is destroyed meanwhile is destroyed in the copy too.

mod error;
mod manifest;
mod restore;
mod tree;
mod write;

pub use error::BackupError;
pub use restore::{UNFINISHED, restore};
pub use write::{Report, clean, write};

use crate::errors;
use crate::service::Sandboxes;
use bytes::Bytes;
use std::io::{self, Write};
use std::sync::Arc;
use tokio::sync::mpsc;
use types::{Error, ErrorCode, Result};

/// Pieces of an archive that wait for a reader.
const PIECES: usize = 8;
/// Bytes of a piece.
const PIECE: usize = 128 << 10;

/// An archive that is being written. Dropped early, it has no end and is worth nothing.
pub struct Backup {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
}

impl Backup {
    /// The next bytes; `None` at the end of a whole one.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        self.pieces.recv().await
    }
}

impl Sandboxes {
    /// Begins a backup of all that is kept; images are left out. One at a time. Errors:
    /// `TOO_MANY_REQUESTS`, `STORAGE_FULL`, `INTERNAL`.
    pub async fn backup(&self) -> Result<Backup> {
        let world = self.world.clone();
        let one = world.backup.clone().try_acquire_owned().map_err(|_| {
            Error::new(ErrorCode::TooManyRequests, "another backup is being written")
        })?;
        // From here on no pack goes.
        let kept = crate::code::Kept::new(world.clone());
        let nobody = types::SandboxName::new(types::Owner::local(), "backup".parse().map_err(
            |e: types::NameError| errors::internal("a backup", e),
        )?);
        let place = world.engine.workspace(&nobody.object_id()).await;
        let place = place.map_err(|e| errors::of_engine_work("a backup", &e))?;
        let sandboxes = place.parent().and_then(|p| p.parent()).map(ToOwned::to_owned);
        let sandboxes = sandboxes.ok_or_else(|| errors::internal("a backup", "no directory"))?;
        let (store, clock) = (world.store.clone(), world.clock.clone());
        let (sender, pieces) = mpsc::channel(PIECES);
        let copy = write::copy(&store, &sandboxes).await.map_err(|error| match error {
            BackupError::Store(error) => errors::of_store(error),
            other => errors::internal("a backup", other),
        })?;
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || {
            let out = Pieces { sender: sender.clone(), piece: Vec::with_capacity(PIECE) };
            let written = write::write_copy(copy, &sandboxes, clock.now_ms(), out);
            drop(one);
            match written {
                Ok(report) => {
                    tracing::info!(sandboxes = report.sandboxes, bytes = report.bytes, "backup");
                    for path in report.left_out {
                        tracing::warn!(path, "left out of the backup");
                    }
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "a backup broke off");
                    let _ = sender.blocking_send(Err(io::Error::other("the backup broke off")));
                }
            }
            runtime.spawn(kept.release());
        });
        Ok(Backup { pieces })
    }
}

/// Hands bytes over in pieces; an error once nobody takes them.
struct Pieces {
    sender: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        let sent = self.sender.blocking_send(Ok(piece.into()));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// One backup at a time.
pub(crate) type Turn = Arc<tokio::sync::Semaphore>;
