//! Who is connected: one daemon, and some who have not said hello yet.

use crate::channel;
use crate::protocol::{FromSupervisor, ToSupervisor};
use rustix::net::SocketFlags;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most messages that wait for a slow daemon; past it the daemon is cut off, and learns all
/// from `Welcome` when it connects again.
const QUEUE: usize = 4096;
/// Most connections that have not said hello.
const STRANGERS: usize = 8;

/// A connection of a daemon.
struct Daemon {
    socket: OwnedFd,
    serial: u64,
    queue: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
}

/// All connections.
pub(super) struct Connections {
    listener: OwnedFd,
    daemon: Option<Daemon>,
    strangers: Vec<OwnedFd>,
    serial: u64,
}

/// What a connection brought.
pub(super) enum Received {
    Message(ToSupervisor, Vec<OwnedFd>),
    /// Nothing now, or nothing that we understand.
    Nothing,
    Closed,
}

impl Connections {
    pub(super) fn new(listener: OwnedFd, daemon: OwnedFd) -> io::Result<Self> {
        let mut made = Self { listener, daemon: None, strangers: Vec::new(), serial: 0 };
        rustix::io::ioctl_fionbio(&daemon, true)?;
        made.take_over(daemon);
        Ok(made)
    }

    pub(super) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    pub(super) fn strangers(&self) -> &[OwnedFd] {
        &self.strangers
    }

    /// The daemon's socket, and whether something waits to be sent.
    pub(super) fn daemon(&self) -> Option<(BorrowedFd<'_>, bool)> {
        self.daemon.as_ref().map(|daemon| (daemon.socket.as_fd(), !daemon.queue.is_empty()))
    }

    /// Tells this daemon's connection from earlier and later ones.
    pub(super) fn serial(&self) -> Option<u64> {
        self.daemon.as_ref().map(|daemon| daemon.serial)
    }

    /// Takes everybody who waits at the door; of too many the oldest go.
    pub(super) fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(socket) = rustix::net::accept_with(&self.listener, flags) {
            let us = rustix::process::geteuid();
            let peer = rustix::net::sockopt::socket_peercred(&socket);
            if !peer.is_ok_and(|peer| peer.uid == us || peer.uid.is_root()) {
                continue;
            }
            if self.strangers.len() == STRANGERS {
                self.strangers.remove(0);
            }
            self.strangers.push(socket);
        }
    }

    /// Reads from a stranger; true where it said hello and is the daemon now.
    pub(super) fn greet(&mut self, at: usize) -> bool {
        let Some(socket) = self.strangers.get(at) else { return false };
        match receive(socket.as_fd()) {
            Received::Nothing => false,
            Received::Message(ToSupervisor::Hello { .. }, _) => {
                let socket = self.strangers.remove(at);
                self.take_over(socket);
                true
            }
            _ => {
                self.strangers.remove(at);
                false
            }
        }
    }

    fn take_over(&mut self, socket: OwnedFd) {
        self.serial += 1;
        self.daemon = Some(Daemon { socket, serial: self.serial, queue: VecDeque::new() });
    }

    /// Reads one message of the daemon.
    pub(super) fn receive(&mut self) -> Received {
        let Some(daemon) = &self.daemon else { return Received::Nothing };
        let received = receive(daemon.socket.as_fd());
        if let Received::Closed = received {
            self.daemon = None;
        }
        received
    }

    /// Sends to the daemon, where there is one.
    pub(super) fn send(&mut self, message: &FromSupervisor, fds: Vec<OwnedFd>) {
        let Some(daemon) = &mut self.daemon else { return };
        // These messages are made of texts and numbers: they always have a JSON text.
        let Ok(text) = serde_json::to_vec(message) else { return };
        daemon.queue.push_back((text, fds));
        let full = daemon.queue.len() > QUEUE;
        self.flush();
        if full {
            self.daemon = None;
        }
    }

    /// Sends what waits, as far as it goes.
    pub(super) fn flush(&mut self) {
        let Some(daemon) = &mut self.daemon else { return };
        while let Some((text, fds)) = daemon.queue.front() {
            let fds: Vec<BorrowedFd> = fds.iter().map(AsFd::as_fd).collect();
            match channel::send_text(daemon.socket.as_fd(), text, &fds) {
                Ok(()) => {
                    daemon.queue.pop_front();
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.daemon = None;
                    return;
                }
            }
        }
    }
}

fn receive(socket: BorrowedFd) -> Received {
    match channel::recv_text(socket) {
        Ok(None) => Received::Closed,
        Ok(Some((text, fds))) => match serde_json::from_slice(&text) {
            Ok(message) => Received::Message(message, fds),
            // A newer daemon's message that this version has not.
            Err(_) => Received::Nothing,
        },
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Received::Nothing,
        // A message was cut, or the socket is broken: what is lost cannot be answered for.
        Err(_) => Received::Closed,
    }
}
