//! When memory ran out. The count of kills alone does not say which death they belong to: one
//! of a background child, hours ago, must not explain a later kill of main.

use crate::protocol::CgroupPaths;
use rustix::event::{EventfdFlags, PollFlags};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long after a want of memory a death by SIGKILL is put down to it.
const NEAR: Duration = Duration::from_secs(2);

/// How the kernel tells.
enum Signal {
    /// v1: an eventfd.
    Event(OwnedFd),
    /// v2: priority readiness of `memory.events`, which a read takes back.
    File(File),
}

/// What is known of wants of memory.
pub(super) struct Watch {
    signal: Option<Signal>,
    last: Option<Instant>,
}

impl Watch {
    pub(super) fn new(groups: &CgroupPaths) -> Self {
        let v1 = groups.v1.iter().find_map(|dir| event(dir));
        let v2 = || {
            let file = File::open(format!("{}/memory.events", groups.v2.as_ref()?)).ok()?;
            Some(Signal::File(file))
        };
        let mut made = Self { signal: v1.or_else(v2), last: None };
        // The first read arms the file.
        made.heard();
        made.last = None;
        made
    }

    /// What is to be waited for.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.signal.as_ref().map(|signal| match signal {
            Signal::Event(told) => told.as_fd(),
            Signal::File(file) => file.as_fd(),
        })
    }

    pub(super) fn flags(&self) -> PollFlags {
        match self.signal {
            Some(Signal::File(_)) => PollFlags::PRI,
            _ => PollFlags::IN,
        }
    }

    /// Memory ran out in this moment.
    pub(super) fn heard(&mut self) {
        match &mut self.signal {
            Some(Signal::Event(told)) => {
                // That it is ready says all; the number does not matter.
                let _ = rustix::io::read(told, &mut [0u8; 8]);
            }
            Some(Signal::File(file)) => {
                let mut text = String::new();
                // What cannot be read would be ready for ever.
                if file.rewind().and_then(|()| file.read_to_string(&mut text)).is_err() {
                    self.signal = None;
                }
            }
            None => {}
        }
        self.last = Some(Instant::now());
    }

    /// Whether a kill that was counted can belong to a death of this moment. Where nothing was
    /// ever told the machine itself ran out of memory, at a time that nobody knows.
    pub(super) fn near(&mut self) -> bool {
        if let Some(fd) = self.fd() {
            let mut set = [rustix::event::PollFd::from_borrowed_fd(fd, self.flags())];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            let ready = rustix::event::poll(&mut set, Some(&now)).is_ok_and(|n| n > 0);
            if ready {
                self.heard();
            }
        }
        self.last.is_none_or(|last| last.elapsed() <= NEAR)
    }
}

fn event(dir: &str) -> Option<Signal> {
    let of = File::open(format!("{dir}/memory.oom_control")).ok()?;
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let told = rustix::event::eventfd(0, flags).ok()?;
    let line = format!("{} {}", told.as_raw_fd(), of.as_raw_fd());
    fs::write(format!("{dir}/cgroup.event_control"), line).ok()?;
    Some(Signal::Event(told))
}
