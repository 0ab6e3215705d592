//! The connection to a supervisor: ordered sends that never block, receives by readiness.

use spawner::channel;
use spawner::protocol::{FromSupervisor, ToSupervisor};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::sync::Notify;

/// Messages that wait for room in the socket; more means that the supervisor stands still.
const QUEUE_MAX: usize = 4096;

static SERIALS: AtomicU64 = AtomicU64::new(1);

/// One connection.
pub(super) struct Link {
    /// Tells it from all others.
    pub serial: u64,
    /// Of type SOCK_SEQPACKET: only its readiness is used as a datagram socket's.
    socket: UnixDatagram,
    queue: Mutex<Queue>,
    queued: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(ToSupervisor, Vec<OwnedFd>)>,
    closed: bool,
}

impl Link {
    /// Takes over a connected socket.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let socket = UnixDatagram::from_std(socket.into())?;
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        Ok(Self { serial, socket, queue: Mutex::default(), queued: Notify::new() })
    }

    /// Sends a message after all earlier ones. `BrokenPipe` where nobody listens any more.
    pub fn send(&self, message: ToSupervisor, fds: Vec<OwnedFd>) -> io::Result<()> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if queue.waiting.is_empty() {
            match self.now(&message, &fds) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
        if queue.waiting.len() >= QUEUE_MAX {
            return Err(io::Error::other("the supervisor does not take any more messages"));
        }
        queue.waiting.push_back((message, fds));
        drop(queue);
        self.queued.notify_one();
        Ok(())
    }

    fn now(&self, message: &ToSupervisor, fds: &[OwnedFd]) -> io::Result<()> {
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        channel::send(self.socket.as_fd(), message, &fds)
    }

    /// Sends what had to wait, for ever. Cancel-safe.
    pub async fn flush(&self) -> io::Result<()> {
        loop {
            self.queued.notified().await;
            loop {
                self.socket.writable().await?;
                let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
                let Some((message, fds)) = queue.waiting.front() else { break };
                match self.socket.try_io(Interest::WRITABLE, || self.now(message, fds)) {
                    Ok(()) => drop(queue.waiting.pop_front()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// The next message; `None` where the supervisor closed. Cancel-safe.
    pub async fn recv(&self) -> io::Result<Option<(FromSupervisor, Vec<OwnedFd>)>> {
        loop {
            self.socket.readable().await?;
            let socket = self.socket.as_fd();
            match self.socket.try_io(Interest::READABLE, || channel::recv(socket)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                done => return done,
            }
        }
    }

    /// Refuses further messages and lets waiting ones go.
    pub fn close(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.closed = true;
        queue.waiting.clear();
        let both = rustix::net::Shutdown::Both;
        let _ = rustix::net::shutdown(&self.socket, both);
    }
}
