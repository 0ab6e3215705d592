//! Frames on a stream socket: length of the header and of the body (32 bits each, little
//! endian), the header, the body; descriptors beside the first byte.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// Longest header, bytes: code and variables, or a displayed result.
const HEADER_MAX: usize = 64 << 20;
/// Longest body, bytes: a pack of a whole memory.
const BODY_MAX: usize = 2 << 30;
/// Most descriptors beside one frame.
pub(crate) const FDS_MAX: usize = 16;
/// Most descriptors that wait to be taken.
const FDS_WAITING: usize = 4096;
const PREFIX: usize = 8;
const CHUNK: usize = 64 << 10;

/// A frame to be sent.
#[derive(Debug)]
pub(crate) struct Frame {
    head: Vec<u8>,
    body: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl Frame {
    pub fn new<T: Serialize>(header: &T, body: Vec<u8>) -> io::Result<Self> {
        let mut head = vec![0; PREFIX];
        serde_json::to_writer(&mut head, header)?;
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "a frame is too long");
        if head.len() - PREFIX > HEADER_MAX || body.len() > BODY_MAX {
            return Err(too_long());
        }
        let length = |n: usize| u32::try_from(n).map(u32::to_le_bytes).map_err(|_| too_long());
        let lengths = [length(head.len() - PREFIX)?, length(body.len())?].concat();
        head[..PREFIX].copy_from_slice(&lengths);
        Ok(Self { head, body, fds: Vec::new() })
    }

    /// At most [`FDS_MAX`] descriptors.
    pub fn with(mut self, fds: Vec<OwnedFd>) -> Self {
        self.fds = fds;
        self
    }
}

/// Sends what comes, in order, until nobody sends any more or the other end is gone.
pub(crate) async fn write_all(socket: Arc<UnixStream>, mut frames: mpsc::UnboundedReceiver<Frame>) {
    while let Some(frame) = frames.recv().await {
        if write(&socket, &frame).await.is_err() {
            return;
        }
    }
}

/// Sends one frame without descriptors, on a socket that blocks.
pub(crate) fn write_blocking(mut to: impl io::Write, frame: &Frame) -> io::Result<()> {
    to.write_all(&frame.head)?;
    to.write_all(&frame.body)
}

async fn write(socket: &UnixStream, frame: &Frame) -> io::Result<()> {
    let mut sent = 0;
    let total = frame.head.len() + frame.body.len();
    while sent < total {
        let fds = if sent == 0 { frame.fds.as_slice() } else { &[] };
        sent += socket.async_io(Interest::WRITABLE, || send(socket, frame, sent, fds)).await?;
    }
    Ok(())
}

fn send(socket: &UnixStream, frame: &Frame, from: usize, fds: &[OwnedFd]) -> io::Result<usize> {
    let head = frame.head.get(from..).unwrap_or_default();
    let body = frame.body.get(from.saturating_sub(frame.head.len())..).unwrap_or_default();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    let parts = [IoSlice::new(head), IoSlice::new(body)];
    Ok(rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives frames.
#[derive(Debug)]
pub(crate) struct Reader {
    socket: Arc<UnixStream>,
    buffer: Vec<u8>,
    fds: VecDeque<OwnedFd>,
}

impl Reader {
    pub fn new(socket: Arc<UnixStream>) -> Self {
        Self { socket, buffer: Vec::new(), fds: VecDeque::new() }
    }

    /// The next frame; `None` at the end. Cancel-safe: what came stays.
    ///
    /// # Errors
    /// `InvalidData` for what is no frame; nothing can be read after it.
    pub async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<(T, Vec<u8>)>> {
        let (head, body) = loop {
            if let Some((head, body)) = self.lengths()?
                && self.buffer.len() >= PREFIX + head + body
            {
                break (head, body);
            }
            if self.fill().await? == 0 {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        };
        let header = serde_json::from_slice(&self.buffer[PREFIX..PREFIX + head])?;
        let rest = self.buffer.split_off(PREFIX + head + body);
        let mut frame = std::mem::replace(&mut self.buffer, rest);
        frame.drain(..PREFIX + head);
        Ok(Some((header, frame)))
    }

    /// The descriptors beside the frame that was read last.
    ///
    /// # Errors
    /// Where fewer came.
    pub fn take_fds(&mut self, count: usize) -> io::Result<Vec<OwnedFd>> {
        if count > self.fds.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "descriptors are missing"));
        }
        Ok(self.fds.drain(..count).collect())
    }

    fn lengths(&self) -> io::Result<Option<(usize, usize)>> {
        let Some([a, b, c, d, e, f, g, h]) = self.buffer.first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let (head, body) =
            (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]));
        let (head, body) = (head as usize, body as usize);
        if head > HEADER_MAX || body > BODY_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"));
        }
        Ok(Some((head, body)))
    }

    async fn fill(&mut self) -> io::Result<usize> {
        let Self { socket, buffer, fds } = self;
        socket.async_io(Interest::READABLE, || receive(socket, buffer, fds)).await
    }
}

fn receive(
    socket: &UnixStream,
    buffer: &mut Vec<u8>,
    fds: &mut VecDeque<OwnedFd>,
) -> io::Result<usize> {
    let old = buffer.len();
    buffer.resize(old + CHUNK, 0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut buffer[old..])];
    let got = rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC);
    buffer.truncate(old + got.as_ref().map_or(0, |got| got.bytes));
    let got = got?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if got.flags.contains(ReturnFlags::CTRUNC) || fds.len() > FDS_WAITING {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "descriptors were lost"));
    }
    Ok(got.bytes)
}

#[cfg(test)]
mod tests;
