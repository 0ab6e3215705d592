//! Why a guest's call ended without an answer.

use wasmtime::Trap;

/// Why a guest's call ended without an answer. Whatever it is, the memory of the guest is not to
/// be used again: the instance is dropped and the context goes back to its last snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// It asked to exit, with this status.
    #[error("the interpreter exited with status {0}")]
    Exit(u32),
    /// It ran longer than it was allowed to, ms.
    #[error("the execution took longer than {0} ms")]
    Timeout(u64),
    /// It ended after it had been refused more memory than this, bytes.
    #[error("the execution needed more than {0} bytes of memory")]
    Memory(u64),
    /// It met the end of its stack.
    #[error("the interpreter's stack overflowed")]
    Stack,
    /// It trapped: what the trap is called.
    #[error("the interpreter broke down: {0}")]
    Trap(String),
    /// What it ran took from it what it needs to run anything more.
    #[error("the code broke what the interpreter itself needs: nothing could run after it")]
    Broken,
    /// It answered what its driver cannot have sent, or lacks what its driver needs.
    #[error("the interpreter's driver failed: {0}")]
    Driver(String),
}

/// The guest's wish to exit, as an error that unwinds it.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("exit with status {0}")]
pub(crate) struct Exit(pub u32);

impl From<wasmtime::Error> for Stop {
    fn from(error: wasmtime::Error) -> Self {
        if let Some(stop) = error.downcast_ref::<Stop>() {
            return stop.clone();
        }
        if let Some(Exit(status)) = error.downcast_ref::<Exit>() {
            return Stop::Exit(*status);
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::StackOverflow) => Stop::Stack,
            Some(trap) => Stop::Trap(trap.to_string()),
            None => Stop::Trap(format!("{error:#}")),
        }
    }
}
