//! From wait statuses and files to endings: pure, so that every case can be tested.

use crate::{CommandEnd, CommandOutcome, Ending, Main};
use spawner::protocol::{CommandExit, EndedBy, ExitFile};

/// A wait status, as waitpid gives it.
pub(super) fn main_of(wait_status: i32) -> Main {
    match wait_status & 0x7f {
        0 => Main::Code((wait_status >> 8) & 0xff),
        signal => Main::Signal(signal),
    }
}

/// What the supervisor's exit file says.
pub(super) fn of_exit(exit: &ExitFile) -> Ending {
    let at_ms = exit.at_ms;
    match exit.by {
        EndedBy::Stopped => Ending::Stopped { note: exit.note.clone(), at_ms },
        EndedBy::DiskFull => Ending::DiskFull { at_ms },
        EndedBy::Inactivity => Ending::Inactivity { at_ms },
        EndedBy::Itself => match exit.main.or(exit.init) {
            Some(status) => Ending::Main { main: main_of(status), oom: exit.oom, at_ms },
            None => Ending::Unknown { at_ms },
        },
    }
}

/// What is known when the supervisor is gone and left no exit file.
#[derive(Debug, Clone, Default)]
pub(super) struct Lost {
    /// Init's file, read before anything was killed.
    pub status_before: Option<i32>,
    /// Init's file, read after all was killed.
    pub status_after: Option<i32>,
    /// This daemon had asked for a stop, with this note.
    pub stop_asked: Option<Option<String>>,
}

/// The ending then. A main process that ends by SIGKILL while we kill tells nothing.
pub(super) fn of_lost(lost: &Lost, at_ms: i64) -> Ending {
    const KILLED: i32 = 9;
    if let Some(note) = &lost.stop_asked {
        return Ending::Stopped { note: note.clone(), at_ms };
    }
    let after = lost.status_after.filter(|status| *status & 0x7f != KILLED);
    match lost.status_before.or(after) {
        Some(status) => Ending::Main { main: main_of(status), oom: false, at_ms },
        None => Ending::Unknown { at_ms },
    }
}

/// How a command ended.
pub(super) fn of_command(exit: &CommandExit) -> CommandEnd {
    let outcome = if exit.instance_gone {
        CommandOutcome::InstanceGone
    } else {
        CommandOutcome::Exited {
            status: main_of(exit.wait_status),
            timed_out: exit.timed_out,
            oom_killed: exit.oom,
        }
    };
    CommandEnd { outcome, at_ms: exit.at_ms }
}

#[cfg(test)]
mod tests;
