//! What the loop waits for, and who takes what comes.

use super::connection::Received;
use super::{Supervisor, commands};
use crate::protocol::{FromSupervisor, ToSupervisor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Most messages of a daemon that are taken before others have their turn.
const TURN: usize = 64;

/// Something is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    Children,
    Door,
    Stranger(usize),
    Daemon { read: bool, write: bool },
    Output,
    Oom,
    Report(String),
    Pipe(String, usize),
    Leftover(usize),
}

impl Supervisor {
    /// Waits for at most `wait`.
    pub(super) fn poll(&mut self, wait: Option<Duration>) -> io::Result<Vec<Event>> {
        let mut set = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::from_borrowed_fd(self.connections.listener(), PollFlags::IN),
        ];
        let mut events = vec![Event::Children, Event::Door];
        if let Some((socket, waiting)) = self.connections.daemon() {
            let out = if waiting { PollFlags::OUT } else { PollFlags::empty() };
            set.push(PollFd::from_borrowed_fd(socket, PollFlags::IN | out));
            events.push(Event::Daemon { read: false, write: false });
        }
        if let Some(output) = &self.output {
            set.push(PollFd::new(output, PollFlags::IN));
            events.push(Event::Output);
        }
        if let Some(fd) = self.oom.fd() {
            set.push(PollFd::from_borrowed_fd(fd, self.oom.flags()));
            events.push(Event::Oom);
        }
        self.commands.wait_for(self.connections.serial(), &mut set, &mut events);
        // Backwards, as one that is taken away moves the later ones.
        for (at, socket) in self.connections.strangers().iter().enumerate().rev() {
            set.push(PollFd::new(socket, PollFlags::IN));
            events.push(Event::Stranger(at));
        }
        let wait = wait.map(|wait| {
            let wait = wait.min(Duration::from_secs(3600));
            Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() }
        });
        match poll(&mut set, wait.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(e) => return Err(e.into()),
        }
        let happened = set.iter().map(PollFd::revents).zip(events);
        let happened = happened.filter(|(flags, _)| !flags.is_empty());
        Ok(happened
            .map(|(flags, event)| match event {
                Event::Daemon { .. } => Event::Daemon {
                    read: flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
                    write: flags.contains(PollFlags::OUT),
                },
                other => other,
            })
            .collect())
    }

    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::Children => {
                let mut told = [0u8; 128];
                while rustix::io::read(&self.signals, &mut told).is_ok() {}
                self.reap();
            }
            Event::Door => self.connections.accept(),
            Event::Stranger(at) => {
                if self.connections.greet(at) {
                    self.welcome();
                }
            }
            Event::Daemon { read, write } => {
                if write {
                    self.connections.flush();
                }
                if read {
                    self.attend_daemon();
                }
            }
            Event::Output => {
                if !self.output.as_mut().is_some_and(super::log::Output::read) {
                    self.output = None;
                }
            }
            Event::Oom => self.oom.heard(),
            Event::Report(id) => self.command_reported(&id),
            Event::Pipe(id, at) => self.commands.drain(&id, at, self.nowhere.as_fd()),
            Event::Leftover(at) => self.commands.drain_leftover(at, self.nowhere.as_fd()),
        }
    }

    fn welcome(&mut self) {
        let welcome = FromSupervisor::Welcome {
            version: self.version,
            instance: self.instance.clone(),
            commands: self.commands.states(),
            starting: Some(self.commands.starting()),
        };
        let pidfd = self.init.try_clone().into_iter().collect();
        self.connections.send(&welcome, pidfd);
    }

    fn attend_daemon(&mut self) {
        for _ in 0..TURN {
            match self.connections.receive() {
                Received::Message(message, fds) => self.obey(message, fds),
                Received::Nothing | Received::Closed => return,
            }
        }
    }

    fn obey(&mut self, message: ToSupervisor, fds: Vec<std::os::fd::OwnedFd>) {
        match message {
            // Said again on a connection that is the daemon's already.
            ToSupervisor::Hello { .. } => self.welcome(),
            ToSupervisor::Exec(request) => {
                let id = request.id.clone();
                if let Err(refusal) = self.exec(request, fds) {
                    let failed = commands::failed(id, refusal);
                    self.connections.send(&failed, Vec::new());
                }
            }
            ToSupervisor::Kill { id } => self.kill_command(&id),
            ToSupervisor::Forget { id } => self.forget(&id),
            ToSupervisor::Stop { grace_ms, why, note } => {
                self.stop(Duration::from_millis(grace_ms), why.into(), note);
            }
            ToSupervisor::Freeze { on } => {
                // Where nothing can freeze the guard's stop follows; there is nothing to say.
                let _ = self.groups.freeze(on);
                self.connections.send(&FromSupervisor::Done, Vec::new());
            }
            // Version 1 does not know it, and is silent about what it does not know.
            ToSupervisor::SetInactivity { .. } if self.version < 2 => {}
            ToSupervisor::SetInactivity { ms } => {
                self.backstop.set(Duration::from_millis(ms));
                self.connections.send(&FromSupervisor::Done, Vec::new());
            }
        }
    }
}
