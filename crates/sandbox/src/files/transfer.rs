//! What takes its time: uploads, downloads, archives, watches. Each keeps the sandbox busy for as
//! long as it lives, goes at the pace of the other side, and ends when the sandbox goes.

use super::keep::{Turn, Turns};
use super::lease::Lease;
use super::{Files, parse};
use crate::errors;
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use types::{Error, ErrorCode, FileOperation, Result, UnpackResult, WatchEvent, WriteFileResult};
use workspace::{FilePath, Reading, Unpacked, Upload, Watcher};

/// Bytes that are handed on at once.
const PIECE: usize = 128 << 10;
/// Pieces of an archive that are under way.
const PIECES: usize = 4;
/// How long an archive waits for its turn.
const TURN: Duration = Duration::from_secs(10);

impl Files {
    /// Begins to write a file, of `expected` bytes where that is known.
    pub async fn write(self, path: &[u8], expected: Option<u64>) -> Result<Uploading> {
        let operation = FileOperation::Write;
        let path = parse(operation, path)?;
        let at = path.clone();
        let begin = move |workspace: &workspace::Workspace| workspace.write(&at, expected);
        let upload = self.work(operation, &path, begin).await?;
        Ok(Uploading { files: self, path, upload: Some(upload) })
    }

    /// Opens a file for reading.
    pub async fn read(self, path: &[u8]) -> Result<Download> {
        let operation = FileOperation::Read;
        let path = parse(operation, path)?;
        let at = path.clone();
        let open = move |workspace: &workspace::Workspace| workspace.read(&at);
        let reading = self.work(operation, &path, open).await?;
        let left = 0..reading.size();
        let (size, tag) = (reading.size(), reading.tag().to_owned());
        Ok(Download { lease: Lease::new(self.busy, reading), path, size, tag, left })
    }

    /// Begins to write a tree, or one file, as a tar archive.
    pub async fn pack(self, path: &[u8]) -> Result<Packed> {
        let operation = FileOperation::ReadArchive;
        let path = parse(operation, path)?;
        let turn = self.turn(&self.sandboxes.world().workspaces.archives).await?;
        let at = path.clone();
        let find = move |workspace: &workspace::Workspace| workspace.archive(&at);
        let archive = self.work(operation, &path, find).await?;
        let (sender, pieces) = mpsc::channel(PIECES);
        let work = tokio::task::spawn_blocking(move || {
            let done = archive.write_to(BufWriter::with_capacity(PIECE, Sink(sender)));
            drop(turn);
            done
        });
        Ok(Packed { lease: Lease::new(self.busy, pieces), path, work: Some(work) })
    }

    /// Begins to unpack a tar archive in a directory.
    pub async fn unpack(self, path: &[u8]) -> Result<Unpacking> {
        let operation = FileOperation::WriteArchive;
        let path = parse(operation, path)?;
        let turn = self.turn(&self.sandboxes.world().workspaces.archives).await?;
        let (pieces, receiver) = mpsc::channel(PIECES);
        let (workspace, busy, at) = (self.workspace.clone(), self.busy.clone(), path.clone());
        let work = tokio::task::spawn_blocking(move || {
            let source = Source { pieces: receiver, piece: io::Cursor::default(), ended: false };
            let done = workspace.unpack(&at, source);
            drop((busy, turn));
            done
        });
        Ok(Unpacking { files: self, path, pieces, work })
    }

    /// Watches a directory.
    pub async fn watch(self, path: &[u8]) -> Result<Changes> {
        let operation = FileOperation::Watch;
        let path = parse(operation, path)?;
        let turn = self.turn(&self.sandboxes.world().workspaces.watches).await?;
        let at = path.clone();
        let watch = move |workspace: &workspace::Workspace| workspace.watch(&at);
        let watcher = self.work(operation, &path, watch).await?;
        Ok(Changes { lease: Lease::new(self.busy, (watcher, turn)), path, over: false })
    }

    pub(super) async fn turn(&self, turns: &Turns) -> Result<Turn> {
        let turn = tokio::time::timeout(TURN, turns.take(self.busy.owner())).await;
        turn.ok().flatten().ok_or_else(|| {
            Error::new(
                ErrorCode::TooManyRequests,
                "too many archives, watches or long lists are under way",
            )
        })
    }
}

/// A file that is being written. Dropped before its end, it was never there.
pub struct Uploading {
    files: Files,
    path: FilePath,
    upload: Option<Upload>,
}

impl Uploading {
    /// Waits until the sandbox goes: then the upload is to be dropped. Cancel-safe.
    pub async fn aborted(&self) {
        self.files.busy.aborted().await;
    }

    /// Writes further bytes. After an error nothing more can be written.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]> + Send + 'static) -> Result<()> {
        let mut upload = self.upload.take().ok_or_else(broken)?;
        let write = move |_: &workspace::Workspace| {
            upload.write(bytes.as_ref())?;
            Ok(upload)
        };
        self.upload = Some(self.files.work(FileOperation::Write, &self.path, write).await?);
        Ok(())
    }

    /// Puts the file in its place.
    pub async fn finish(mut self) -> Result<WriteFileResult> {
        let upload = self.upload.take().ok_or_else(broken)?;
        let finish = move |_: &workspace::Workspace| upload.finish();
        let written = self.files.work(FileOperation::Write, &self.path, finish).await?;
        Ok(WriteFileResult {
            success: true,
            path: self.path.to_string(),
            timestamp: self.files.now(),
            size: written.size,
            created: written.created,
        })
    }
}

/// A file that is being read.
pub struct Download {
    lease: Lease<Reading>,
    path: FilePath,
    size: u64,
    tag: String,
    left: Range<u64>,
}

impl Download {
    /// Its length, bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Differs where the contents may differ.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Reads only this part of it. Errors: `RANGE_NOT_SATISFIABLE` where there is none of it.
    pub fn only(&mut self, range: Range<u64>) -> Result<()> {
        let size = self.size();
        if range.start >= size {
            let error = workspace::Error::Range { size };
            return Err(error.public(FileOperation::Read, &self.path));
        }
        self.left = range.start..range.end.min(size);
        Ok(())
    }

    /// The next bytes; `None` at the end. Errors: also where the file became shorter.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let mut held = self.lease.take().ok_or_else(errors::destroyed)?;
        let reading = held.take().ok_or_else(broken)?;
        let offset = self.left.start;
        let length = usize::try_from(self.left.end - offset).unwrap_or(PIECE).min(PIECE);
        let read = move || reading.at(offset, length).map(|piece| (reading, piece));
        let read = tokio::select! {
            read = tokio::task::spawn_blocking(read) => read,
            () = self.lease.aborted() => return Err(errors::destroyed()),
        };
        let read = read.map_err(|e| errors::internal("reading a file", e))?;
        let (reading, piece) = read.map_err(|e| e.public(FileOperation::Read, &self.path))?;
        *held = Some(reading);
        self.left.start += piece.len() as u64;
        Ok(Some(piece))
    }
}

fn broken() -> Error {
    Error::new(ErrorCode::Unavailable, "the transfer broke off before")
}

/// A tree that is being written as an archive.
pub struct Packed {
    lease: Lease<mpsc::Receiver<Vec<u8>>>,
    path: FilePath,
    work: Option<JoinHandle<workspace::Result<()>>>,
}

impl Packed {
    /// The next bytes; `None` at the end. An error means that what came before is not all.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let mut held = self.lease.take().ok_or_else(errors::destroyed)?;
        let pieces = held.as_mut().ok_or_else(broken)?;
        let piece = tokio::select! {
            piece = pieces.recv() => piece,
            () = self.lease.aborted() => return Err(errors::destroyed()),
        };
        if piece.is_some() {
            return Ok(piece);
        }
        let Some(work) = self.work.take() else { return Ok(None) };
        let done = work.await.map_err(|e| errors::internal("an archive", e))?;
        done.map_err(|error| error.public(FileOperation::ReadArchive, &self.path))?;
        Ok(None)
    }
}

/// An archive that is being unpacked. Dropped before its end, the entry that is under way is not
/// made; those before it stay.
pub struct Unpacking {
    files: Files,
    path: FilePath,
    pieces: mpsc::Sender<Option<Vec<u8>>>,
    work: JoinHandle<workspace::Result<Unpacked>>,
}

impl Unpacking {
    /// Waits until the sandbox goes: then this is to be dropped. Cancel-safe.
    pub async fn aborted(&self) {
        self.files.busy.aborted().await;
    }

    /// Hands over further bytes; `false`: no more are wanted, and [`Unpacking::finish`] knows why.
    pub async fn write(&mut self, bytes: Vec<u8>) -> Result<bool> {
        tokio::select! {
            sent = self.pieces.send(Some(bytes)) => Ok(sent.is_ok()),
            () = self.files.busy.aborted() => Err(errors::destroyed()),
        }
    }

    /// Says that this was all, and waits until it is unpacked.
    pub async fn finish(self) -> Result<UnpackResult> {
        // It may have ended by itself.
        let _ = self.pieces.send(None).await;
        let done = tokio::select! {
            done = self.work => done.map_err(|e| errors::internal("an archive", e))?,
            () = self.files.busy.aborted() => return Err(errors::destroyed()),
        };
        let done = match done {
            Ok(done) => done,
            Err(error) => {
                let (world, owner) = (&self.files.sandboxes.world, self.files.busy.owner());
                let operation = FileOperation::WriteArchive;
                return Err(world.refused(owner, error, operation, &self.path).await);
            }
        };
        Ok(UnpackResult {
            success: true,
            path: self.path.to_string(),
            entries: done.entries,
            bytes: done.bytes,
            timestamp: self.files.now(),
        })
    }
}

/// Changes below a directory.
pub struct Changes {
    lease: Lease<(Watcher, Turn)>,
    path: FilePath,
    over: bool,
}

impl Changes {
    /// The next event; `None` after [`WatchEvent::Gone`]. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>> {
        if self.over {
            return Ok(None);
        }
        let mut held = self.lease.take();
        let event = match held.as_mut().and_then(|held| held.as_mut()) {
            Some((watcher, _)) => tokio::select! {
                event = watcher.next() => event,
                () = self.lease.aborted() => Ok(Some(WatchEvent::Gone)),
            },
            None => Ok(Some(WatchEvent::Gone)),
        };
        self.over = matches!(event, Ok(Some(WatchEvent::Gone)));
        event.map_err(|error| error.public(FileOperation::Watch, &self.path))
    }
}

/// Where an archive is written to.
struct Sink(mpsc::Sender<Vec<u8>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(bytes.to_vec());
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where an archive comes from.
struct Source {
    pieces: mpsc::Receiver<Option<Vec<u8>>>,
    piece: io::Cursor<Vec<u8>>,
    ended: bool,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && self.piece.position() == self.piece.get_ref().len() as u64 {
            match self.pieces.blocking_recv() {
                Some(Some(piece)) => self.piece = io::Cursor::new(piece),
                Some(None) => self.ended = true,
                // The other side went away without saying that it was all.
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        self.piece.read(buffer)
    }
}
