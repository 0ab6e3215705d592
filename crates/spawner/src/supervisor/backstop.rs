//! The backstop: an instance that no daemon and no command keeps ends by itself.

use super::Supervisor;
use crate::protocol::EndedBy;
use crate::sys::{self, Fork};
use rustix::process::{Pid, WaitOptions};
use std::time::{Duration, Instant};

/// How long SIGTERM has before SIGKILL.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// How long the instance has been alone.
pub(super) struct Backstop {
    limit: Duration,
    alone_since: Option<Instant>,
}

impl Backstop {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, alone_since: None }
    }

    pub(super) fn set(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// When it ends the instance, if nothing comes.
    pub(super) fn due(&self) -> Option<Instant> {
        self.alone_since.and_then(|since| since.checked_add(self.limit))
    }
}

impl Supervisor {
    pub(super) fn update_backstop(&mut self, now: Instant) {
        let alone = self.connections.serial().is_none() && !self.commands.any_alive();
        self.backstop.alone_since =
            if alone { self.backstop.alone_since.or(Some(now)) } else { None };
        if self.ending.is_none() && self.backstop.due().is_some_and(|due| due <= now) {
            // Frozen processes could not heed it.
            let _ = self.groups.freeze(false);
            self.end(EndedBy::Inactivity, GRACE, None);
            self.signal_others(libc::SIGTERM);
        }
    }

    /// Sends a signal to everything in the instance but init; false where there is nothing.
    /// Done from inside its pid namespace, at once for all, so that no fork slips through.
    pub(super) fn signal_others(&self, signal: i32) -> bool {
        match self.fork_inside(None) {
            Ok(Fork::Child) => {
                let sent = sys::kill(-1, signal);
                sys::exit_now(i32::from(sent.is_err()))
            }
            Ok(Fork::Parent { pid, .. }) => {
                let ended = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty());
                matches!(ended, Ok(Some((_, status))) if status.exit_status() == Some(0))
            }
            // The namespace ends already.
            Err(_) => false,
        }
    }
}
