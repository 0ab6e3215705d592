//! Bytes between a thread that blocks and the connection.

use bytes::Bytes;
use std::io::{self, Read, Write};
use tokio::sync::mpsc;

/// Pieces that wait at most.
const PIECES: usize = 4;
/// Bytes of a piece that is sent.
const PIECE: usize = 256 << 10;

/// Pieces of an archive, or why there are no more.
pub type Piece = io::Result<Bytes>;

/// Both ends.
pub fn pipe() -> (mpsc::Sender<Piece>, mpsc::Receiver<Piece>) {
    mpsc::channel(PIECES)
}

/// Writes pieces, in a thread that may block.
pub struct Out {
    to: mpsc::Sender<Piece>,
    piece: Vec<u8>,
}

impl Out {
    pub fn new(to: mpsc::Sender<Piece>) -> Self {
        Self { to, piece: Vec::with_capacity(PIECE) }
    }
}

impl Write for Out {
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
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.to.blocking_send(Ok(piece.into())).map_err(gone)
    }
}

/// Reads pieces, in a thread that may block. It is at its end once an empty piece came:
/// a sender that went away has no more to say of what is missing.
pub struct In {
    from: mpsc::Receiver<Piece>,
    piece: Bytes,
    /// Bytes that were read, and how many of the last ones are zero.
    pub read: u64,
    pub zeros: u64,
    ended: bool,
}

impl In {
    pub fn new(from: mpsc::Receiver<Piece>) -> Self {
        Self { from, piece: Bytes::new(), read: 0, zeros: 0, ended: false }
    }
}

impl Read for In {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            if self.ended {
                return Ok(0);
            }
            match self.from.blocking_recv() {
                // An empty piece is the end.
                Some(Ok(piece)) if piece.is_empty() => self.ended = true,
                Some(piece) => self.piece = piece?,
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        let n = buffer.len().min(self.piece.len());
        buffer[..n].copy_from_slice(&self.piece.split_to(n));
        self.read += n as u64;
        match buffer[..n].iter().rev().position(|b| *b != 0) {
            Some(zeros) => self.zeros = zeros as u64,
            None => self.zeros += n as u64,
        }
        Ok(n)
    }
}
