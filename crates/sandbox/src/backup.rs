//! Backups: the store, the workspaces and the memory of contexts in one archive, written while the
//! server works.
//!
//! ```text
//! backup.json                      which format, when, which engines its contexts need
//! sandboxes/<object id>/…          workspace, contexts, logs
//! store.db                         a copy of the store, of before the files were read
//! manifest                         a line for each of them, with a hash; the last one is its end
//! ```
//!
//! It is a tar archive within zstd. The copy of the store is made first, and every pack that it
//! names gets a second name beside it (`prepare.rs`): so each context's row has its packs,
//! whatever is saved or deleted meanwhile. Workspaces are read as they are. A sandbox that is
//! destroyed or expires before the end is so in the copy too.

mod error;
mod manifest;
mod prepare;
mod restore;
mod sparse;
mod target;
mod tree;
mod write;

pub use error::BackupError;
pub use prepare::clean;
pub use restore::restore;
pub use write::{Report, write};

use crate::errors;
use crate::service::Sandboxes;
use bytes::Bytes;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use types::{Error, ErrorCode, Result};

/// Backups at once.
const AT_ONCE: usize = 4;
/// Pieces of an archive that wait for a reader.
const PIECES: usize = 8;
/// Bytes of a piece.
const PIECE: usize = 128 << 10;
/// A reader that takes nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(600);

/// The turns of those that run at once.
pub(crate) fn turns() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(AT_ONCE))
}

/// An archive that is being written. Dropped early, the work on it ends, and what was read of it
/// has no end and is worth nothing.
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
    /// Begins a backup of all that is kept; images and engines are left out. Errors:
    /// `TOO_MANY_REQUESTS`, `STORAGE_FULL`, `INTERNAL`.
    pub async fn backup(&self) -> Result<Backup> {
        let turn = self.world.backup.clone().try_acquire_owned().map_err(|_| {
            let message = format!("{AT_ONCE} backups are being written, and no more are at once");
            Error::new(ErrorCode::TooManyRequests, message)
        })?;
        let (sender, pieces) = mpsc::channel(PIECES);
        let (ready, begun) = oneshot::channel();
        // A task of its own: what is prepared is put away also where the caller goes.
        tokio::spawn(run(self.clone(), turn, sender, ready));
        match begun.await {
            Ok(Ok(())) => Ok(Backup { pieces }),
            Ok(Err(error)) => Err(of_backup(error)),
            Err(_) => Err(errors::internal("a backup", "it broke off")),
        }
    }
}

fn of_backup(error: BackupError) -> Error {
    let full = |e: &io::Error| {
        matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    };
    match error {
        BackupError::Store(error) => errors::of_store(error),
        BackupError::NoDirectory => Error::new(ErrorCode::NotSupported, error.to_string()),
        BackupError::File { source, .. } if full(&source) => errors::of_store(store::Error::Full),
        other => errors::internal("a backup", other),
    }
}

async fn run(
    sandboxes: Sandboxes,
    turn: OwnedSemaphorePermit,
    sender: mpsc::Sender<io::Result<Bytes>>,
    ready: oneshot::Sender<Result<(), BackupError>>,
) {
    let world = &sandboxes.world;
    let Some(data) = world.upkeep.data.clone() else {
        let _ = ready.send(Err(BackupError::NoDirectory));
        return;
    };
    let (store, now) = (world.store.clone(), world.clock.now_ms());
    let kept = crate::code::Kept::new(world.clone()).await;
    let prepared = prepare::prepare(&store, &data, now).await;
    kept.release();
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    if ready.send(Ok(())).is_err() {
        return;
    }
    let pieces = Pieces {
        sender: sender.clone(),
        piece: Vec::with_capacity(PIECE),
        runtime: Handle::current(),
    };
    match write::archive(prepared, store, pieces).await {
        Ok(report) => {
            tracing::info!(sandboxes = report.sandboxes, bytes = report.bytes, "backed up");
            for told in report.left_out {
                tracing::warn!(told, "left out of a backup");
            }
        }
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a backup broke off");
            // Else the answer would look whole.
            let told = sender.send(Err(io::Error::other("the backup broke off")));
            let _ = tokio::time::timeout(PATIENCE, told).await;
        }
    }
    drop(turn);
}

/// Hands bytes over in pieces; an error once nobody takes them.
struct Pieces {
    sender: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
    runtime: Handle,
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
        let sent = self.sender.send_timeout(Ok(piece.into()), PATIENCE);
        self.runtime.block_on(sent).map_err(|error| match error {
            mpsc::error::SendTimeoutError::Closed(_) => io::ErrorKind::BrokenPipe.into(),
            mpsc::error::SendTimeoutError::Timeout(_) => io::ErrorKind::TimedOut.into(),
        })
    }
}
