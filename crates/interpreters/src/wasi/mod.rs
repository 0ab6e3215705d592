//! WASI preview 1, as far as an interpreter needs it, with open files that can be stored.
//!
//! Every path is resolved by the kernel beneath one of the directories that the guest was given.
//! Only regular files and directories are opened. There are no sockets and no processes: their
//! calls answer that they are not supported, as do calls that this does not know.

mod clocks;
mod descriptors;
mod errno;
mod fds;
mod files;
mod fixed;
mod linker;
mod mem;
mod names;
mod output;
mod paths;
mod places;
mod poll;
mod process;
mod rights;
mod room;
mod saved;
mod stat;
mod ways;

pub use clocks::{Clocks, CpuMeter};
pub use linker::{add_to_linker, define_unknown};
pub use output::{Output, Sink, Totals};
pub use places::Places;
pub use room::Room;
pub(crate) use room::Shared;
pub use saved::{SavedFd, SavedFile, SavedKind};

pub(crate) use clocks::epoch_ms;

use fds::Fds;
use files::Stdin;
use fixed::Fixed;

/// The system as one guest sees it.
pub struct Wasi {
    /// Its arguments, without NUL.
    pub args: Vec<Vec<u8>>,
    /// Its environment, as `NAME=value`, without NUL. Interpreters read it once, when they start.
    pub env: Vec<Vec<u8>>,
    /// What it writes and displays.
    pub output: Output,
    /// Its clocks.
    pub clocks: Clocks,
    /// What the workspace may still grow by.
    pub room: Room,
    /// While an execution runs.
    share: Option<room::Share>,
    /// What open files of the workspace take that have no name any more, bytes.
    held: u64,
    fds: Fds,
    stdin: Stdin,
    /// What it is told while it starts.
    fixed: Option<Fixed>,
}

impl Wasi {
    /// A fresh system with these directories: no arguments, no environment, no input.
    pub fn new(places: Places) -> Self {
        Self::with(Fds::new(places), Clocks::resume(0, 0))
    }

    /// A fresh one that tells the same whenever and wherever it is asked: times, random numbers,
    /// what files are beside their bytes.
    pub fn reproducible(places: Places) -> Self {
        Self { fixed: Some(Fixed::default()), ..Self::new(places) }
    }

    /// A system that goes on from what a snapshot kept.
    pub fn restore(places: Places, fds: &[SavedFd], clocks: Clocks) -> Self {
        Self::with(Fds::restore(places, fds), clocks)
    }

    fn with(fds: Fds, clocks: Clocks) -> Self {
        Wasi {
            args: Vec::new(),
            env: Vec::new(),
            output: Output::default(),
            clocks,
            room: Room::UNLIMITED,
            share: None,
            held: 0,
            fds,
            stdin: Stdin::default(),
            fixed: None,
        }
    }

    /// All descriptors that are not as they were at first.
    pub fn save(&self) -> Vec<SavedFd> {
        self.fds.save()
    }

    /// From here on standard input is this; the standard streams are open. An execution begins.
    pub fn set_stdin(&mut self, bytes: Vec<u8>) {
        self.fds.reopen();
        // Others may have taken the names of open files since the last one.
        self.count_held();
        self.stdin = Stdin { bytes, at: 0 };
    }
}

#[cfg(test)]
mod tests;
