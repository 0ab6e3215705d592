//! WASI preview 1, as far as an interpreter needs it, with open files that can be stored.
//!
//! Every path is resolved by the kernel beneath one of the directories that the guest was given.
//! Only regular files and directories are opened. There are no sockets and no processes: their
//! calls answer that they are not supported, as do calls that this does not know.

mod clocks;
mod linker;
mod output;

pub use clocks::{Clocks, CpuMeter};
pub use linker::{add_to_linker, define_unknown};
pub use output::{Output, Sink, Totals};

pub(crate) use clocks::epoch_ms;

/// The system as one guest sees it.
#[derive(Default)]
pub struct Wasi {
    /// Its arguments, without NUL.
    pub args: Vec<Vec<u8>>,
    /// Its environment, as `NAME=value`, without NUL. Interpreters read it once, when they start.
    pub env: Vec<Vec<u8>>,
    /// What it writes and displays.
    pub output: Output,
    /// Its clocks.
    pub clocks: Clocks,
}
