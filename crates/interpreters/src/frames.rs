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
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// Longest header, bytes: code and variables, or a displayed result.
const HEADER_MAX: usize = 64 << 20;
/// Longest body, bytes: standard input, a piece of output, a part of a pack.
const BODY_MAX: usize = 64 << 20;
/// Most descriptors beside one frame.
pub(crate) const FDS_MAX: usize = 16;
/// Most descriptors that wait to be taken.
const FDS_WAITING: usize = 4096;
const PREFIX: usize = 8;
const CHUNK: usize = 64 << 10;
/// Most that a reader keeps of its room, bytes.
const KEEP: usize = 4 * CHUNK;

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

    fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// At most [`FDS_MAX`] descriptors.
    pub fn with(mut self, fds: Vec<OwnedFd>) -> Self {
        self.fds = fds;
        self
    }
}

/// Sends frames in order: at once where the socket takes them, and what it does not take by a task
/// that waits for it, and that ends with the last clone when it has sent the rest.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    socket: Arc<UnixStream>,
    /// Frames, and how much of each is on its way already.
    rest: mpsc::UnboundedSender<(Frame, usize)>,
    /// How many of them there are.
    behind: Arc<Mutex<usize>>,
}

impl Sender {
    /// Of a socket. To be called in a runtime.
    pub fn new(socket: Arc<UnixStream>) -> Self {
        let (rest, frames) = mpsc::unbounded_channel();
        let behind = Arc::default();
        tokio::spawn(send_rest(socket.clone(), frames, Arc::clone(&behind)));
        Self { socket, rest, behind }
    }

    /// Sends one; where the other end is gone nobody needs it.
    pub fn send(&self, frame: Frame) {
        // Held throughout: the next frame comes after this one.
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sent = 0;
        while *behind == 0 && sent < frame.len() {
            match self.socket.try_io(Interest::WRITABLE, || send(&self.socket, &frame, sent)) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return,
            }
        }
        if sent < frame.len() {
            *behind += 1;
            let _ = self.rest.send((frame, sent));
        }
    }
}

async fn send_rest(
    socket: Arc<UnixStream>,
    mut frames: mpsc::UnboundedReceiver<(Frame, usize)>,
    behind: Arc<Mutex<usize>>,
) {
    while let Some((frame, mut sent)) = frames.recv().await {
        while sent < frame.len() {
            let more = socket.async_io(Interest::WRITABLE, || send(&socket, &frame, sent)).await;
            let Ok(more) = more else { return };
            sent += more;
        }
        *behind.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}

/// Sends one frame without descriptors, on a socket that blocks.
pub(crate) fn write_blocking(mut to: impl io::Write, frame: &Frame) -> io::Result<()> {
    to.write_all(&frame.head)?;
    to.write_all(&frame.body)
}

/// Sends what it takes of a frame; the descriptors go beside the first byte.
fn send(socket: &UnixStream, frame: &Frame, from: usize) -> io::Result<usize> {
    let fds = if from == 0 { frame.fds.as_slice() } else { &[] };
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
    /// What came and was not taken yet, and room behind it.
    buffer: Vec<u8>,
    filled: usize,
    fds: VecDeque<OwnedFd>,
    /// Most descriptors that wait to be taken.
    fds_most: usize,
    /// Bytes of the frame that was read last.
    size: usize,
}

impl Reader {
    pub fn new(socket: Arc<UnixStream>) -> Self {
        let (buffer, fds) = (Vec::new(), VecDeque::new());
        Self { socket, buffer, filled: 0, fds, fds_most: FDS_WAITING, size: 0 }
    }

    /// One that refuses descriptors: the other end is not trusted to fill this process with them.
    pub fn without_fds(socket: Arc<UnixStream>) -> Self {
        Self { fds_most: 0, ..Self::new(socket) }
    }

    /// Bytes of the frame that was read last, its header among them.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The next frame; `None` at the end. Cancel-safe: what came stays.
    ///
    /// # Errors
    /// `InvalidData` for what is no frame; nothing can be read after it.
    pub async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<(T, Vec<u8>)>> {
        let (head, body) = loop {
            if let Some((head, body)) = self.lengths()?
                && self.filled >= PREFIX + head + body
            {
                break (head, body);
            }
            if self.fill().await? == 0 {
                return match self.filled {
                    0 => Ok(None),
                    _ => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        };
        let (head, end) = (PREFIX + head, PREFIX + head + body);
        self.size = end;
        let header = serde_json::from_slice(&self.buffer[PREFIX..head])?;
        let frame = self.buffer[head..end].to_vec();
        self.buffer.copy_within(end..self.filled, 0);
        self.filled -= end;
        // A large frame's room is not kept.
        if self.filled <= KEEP && self.buffer.len() > KEEP {
            self.buffer.truncate(KEEP);
            self.buffer.shrink_to_fit();
        }
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
        let Some([a, b, c, d, e, f, g, h]) = self.buffer[..self.filled].first_chunk::<PREFIX>()
        else {
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
        let Self { socket, buffer, filled, fds, fds_most, .. } = self;
        let most = *fds_most;
        if buffer.len() < *filled + CHUNK {
            // As much again, so that a large frame is not copied for each piece of it.
            buffer.resize((2 * *filled).max(*filled + CHUNK), 0);
        }
        let got = socket
            .async_io(Interest::READABLE, || receive(socket, &mut buffer[*filled..], fds, most))
            .await?;
        *filled += got;
        Ok(got)
    }
}

fn receive(
    socket: &UnixStream,
    room: &mut [u8],
    fds: &mut VecDeque<OwnedFd>,
    most: usize,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(room)];
    let got = rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC);
    let got = got?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if got.flags.contains(ReturnFlags::CTRUNC) || fds.len() > most {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "descriptors were lost, or are too many",
        ));
    }
    Ok(got.bytes)
}

#[cfg(test)]
mod tests;
