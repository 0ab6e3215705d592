//! How an instance ends: by order, by the backstop, or by itself.

use super::{Supervisor, files};
use crate::ident;
use crate::protocol::{EndedBy, ExitFile, FromSupervisor, StopWhy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::WaitOptions;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How often is looked whether the grace is still needed, or the kill was heard.
const LOOK: Duration = Duration::from_millis(100);
/// Longest note that is kept, bytes.
const NOTE: usize = 4096;
/// PF_EXITING in the flags of /proc/PID/stat.
const EXITING: u64 = 0x4;

/// An end under way.
pub(super) struct Ending {
    by: EndedBy,
    /// What the daemon wants to read of it later.
    note: Option<String>,
    /// When SIGKILL comes.
    hard_at: Instant,
    /// When to look again.
    pub(super) next: Option<Instant>,
    /// SIGKILL was sent to all.
    killed: bool,
}

impl From<StopWhy> for EndedBy {
    fn from(why: StopWhy) -> Self {
        match why {
            StopWhy::Stopped => Self::Stopped,
            StopWhy::DiskFull => Self::DiskFull,
        }
    }
}

impl Supervisor {
    /// By order. A second order may shorten the grace of the first, not change its reason.
    pub(super) fn stop(&mut self, grace: Duration, by: EndedBy, note: Option<String>) {
        // Without a main process nobody is there to be asked.
        let grace = if self.has_main { grace } else { Duration::ZERO };
        self.end(by, grace, note);
        if !grace.is_zero() {
            let _ = self.groups.freeze(false);
            // Ended already is as good.
            let _ = ident::signal(self.init.as_fd(), libc::SIGTERM);
        }
        self.advance_ending(Instant::now());
    }

    pub(super) fn end(&mut self, by: EndedBy, grace: Duration, note: Option<String>) {
        let now = Instant::now();
        let hard_at = now.checked_add(grace).unwrap_or(now);
        // The first reason counts: what has ended by itself was not ended by anybody.
        let ended = self.init_ended.is_some() || files::status_of(&self.status).is_some();
        let (by, note) = if ended { (EndedBy::Itself, None) } else { (by, note) };
        match &mut self.ending {
            Some(ending) => ending.hard_at = ending.hard_at.min(hard_at),
            None => {
                let note = note.map(|mut note| {
                    note.truncate(note.floor_char_boundary(NOTE));
                    note
                });
                let next = Some(now + LOOK);
                self.ending = Some(Ending { by, note, hard_at, next, killed: false });
            }
        }
    }

    /// Whether SIGKILL was sent to all, or init dies already and takes all with it.
    pub(super) fn going_down(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.killed)
            || self.init_ended.is_some()
            || ident::stat_field(self.instance.pid, 9).map_or(true, |flags| flags & EXITING != 0)
    }

    pub(super) fn advance_ending(&mut self, now: Instant) {
        let Some(ending) = &self.ending else { return };
        if ending.next.is_none_or(|next| next > now) && ending.hard_at > now {
            return;
        }
        let idle = ending.by == EndedBy::Inactivity && !ending.killed && !self.has_main;
        let hard = ending.killed || ending.hard_at <= now || (idle && !self.signal_others(0));
        if hard {
            self.groups.kill();
            // Where there are no groups this does it alone: all ends with init.
            let _ = ident::signal(self.init.as_fd(), libc::SIGKILL);
        }
        if let Some(ending) = &mut self.ending {
            ending.killed |= hard;
            let hard_at = if ending.killed { now + LOOK } else { ending.hard_at };
            ending.next = Some(hard_at.min(now + LOOK));
            if ending.killed {
                ending.hard_at = now + LOOK;
            }
        }
    }

    /// Takes every child that ended.
    pub(super) fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let (pid, status) = (pid.as_raw_nonzero().get(), status.as_raw());
            if pid == self.instance.pid {
                self.init_ended = Some(status);
                self.oom_at_end = self.groups.oom_kills() > self.oom_told && self.oom.near();
            } else {
                self.command_ended(pid, status);
            }
        }
        self.commands.remove_groups(&self.groups);
    }

    /// Whether nothing of the instance is left. Init is reaped last: the kernel ends it only
    /// when all of its namespace are gone, and those that are our children reaped.
    pub(super) fn over(&self) -> bool {
        self.init_ended.is_some() && !self.commands.any_alive()
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        while self.output.as_mut().is_some_and(|output| has_input(output.as_fd()) && output.read())
        {
        }
        let main = files::status_of(&self.status);
        let by = self.ending.as_ref().map_or(EndedBy::Itself, |ending| ending.by);
        let killed = |status: Option<i32>| status.is_some_and(|s| s & 0x7f == libc::SIGKILL);
        let by_kill = killed(main) || (main.is_none() && killed(self.init_ended));
        let exit = ExitFile {
            generation: self.instance.generation,
            main,
            init: self.init_ended,
            oom: by == EndedBy::Itself && by_kill && self.oom_at_end,
            by,
            note: self.ending.as_mut().and_then(|ending| ending.note.take()),
            at_ms: super::now_ms(),
        };
        // Its room was kept; and where it fails the daemon is told all the same.
        let _ = self.exit.commit(self.run.as_fd(), &exit);
        files::remove(self.run.as_fd(), "sock");
        self.groups.remove();
        self.connections.send(&FromSupervisor::Ended { exit }, Vec::new());
        self.say_goodbye();
        Ok(())
    }

    /// Waits a while for a slow daemon to take what is left for it.
    fn say_goodbye(&mut self) {
        let until = Instant::now() + Duration::from_secs(10);
        while let Some((socket, true)) = self.connections.daemon() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let mut set = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
            let second = Timespec { tv_sec: 1, tv_nsec: 0 };
            let _ = poll(&mut set, Some(&second));
            self.connections.flush();
        }
    }
}

fn has_input(fd: std::os::fd::BorrowedFd) -> bool {
    let mut set = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut set, Some(&now)), Ok(1..)) && set[0].revents().contains(PollFlags::IN)
}
