//! Messages over a SOCK_SEQPACKET descriptor: one JSON text a packet, descriptors beside it.
//!
//! All is synchronous and works on non-blocking descriptors: `WouldBlock` then means what it
//! says and nothing was sent or received, so that these go into a readiness loop as they are.

use crate::protocol::INLINE_MAX;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most descriptors beside one message.
pub const FDS_MAX: usize = 16;
/// Longest text that is received, bytes.
pub const TEXT_MAX: u64 = 64 << 20;

/// A connected pair, both ends closed at exec and blocking.
///
/// # Errors
/// The kernel's: want of descriptors or memory.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Sends one message.
///
/// # Errors
/// `WouldBlock` on a full non-blocking descriptor, `BrokenPipe` where nobody listens,
/// `InvalidInput` for more than [`FDS_MAX`] descriptors.
pub fn send<T: Serialize>(to: BorrowedFd, message: &T, fds: &[BorrowedFd]) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    send_text(to, &text, fds)
}

/// Sends a text that is JSON already.
///
/// # Errors
/// As [`send`].
pub fn send_text(to: BorrowedFd, text: &[u8], fds: &[BorrowedFd]) -> io::Result<()> {
    if text.len() <= INLINE_MAX {
        return send_packet(to, text, fds);
    }
    let memory = sealed_memfd(text)?;
    let mut all = vec![memory.as_fd()];
    all.extend_from_slice(fds);
    send_packet(to, &[], &all)
}

fn send_packet(to: BorrowedFd, text: &[u8], fds: &[BorrowedFd]) -> io::Result<()> {
    if fds.len() > FDS_MAX + 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX + 1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    let flags = SendFlags::NOSIGNAL;
    loop {
        match rustix::net::sendmsg(to, &[IoSlice::new(text)], &mut control, flags) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Receives one message; `None` where the other end is closed.
///
/// # Errors
/// `WouldBlock` on an empty non-blocking descriptor; `InvalidData` for what is not such a
/// message, or too long, or came without its descriptors for want of room: that packet is gone
/// and the next can be received.
pub fn recv<T: DeserializeOwned>(from: BorrowedFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    match recv_text(from)? {
        None => Ok(None),
        Some((text, fds)) => Ok(Some((serde_json::from_slice(&text)?, fds))),
    }
}

/// Receives one message as its text; `None` where the other end is closed.
///
/// # Errors
/// As [`recv`].
pub fn recv_text(from: BorrowedFd) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut text = vec![0u8; INLINE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX + 1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut parts = [IoSliceMut::new(&mut text)];
        match rustix::net::recvmsg(from, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(got) => break got,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    };
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    let cut = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
    if got.flags.intersects(cut) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message came cut"));
    }
    text.truncate(got.bytes);
    if got.bytes == 0 {
        if fds.is_empty() {
            return Ok(None);
        }
        text = read_memory(fds.remove(0))?;
    }
    Ok(Some((text, fds)))
}

fn read_memory(fd: OwnedFd) -> io::Result<Vec<u8>> {
    let seals = rustix::fs::fcntl_get_seals(&fd)?;
    if !seals.contains(SealFlags::WRITE | SealFlags::SHRINK) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a long message is not sealed"));
    }
    let mut file = File::from(fd);
    let len = file.metadata()?.len();
    if len > TEXT_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
    }
    file.rewind()?;
    let mut text = Vec::with_capacity(len as usize);
    file.take(TEXT_MAX).read_to_end(&mut text)?;
    Ok(text)
}

/// Bytes as a read-only file in memory, at its start: what a command reads as stdin.
///
/// # Errors
/// The kernel's: want of descriptors or memory.
pub fn sealed_memfd(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create("sandkeep", flags)?);
    file.write_all(bytes)?;
    file.rewind()?;
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}
