//! From the kernel's errors to the engine's.

use crate::{Error, ExecError};
use std::io;

/// Names the step that failed; a full disk keeps its own name.
pub(crate) fn step(step: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let step = step.into();
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::StorageFull,
        _ => Error::Failed(format!("{step}: {error}")),
    }
}

/// The same for a command; what passes by itself is told from what does not.
pub(crate) fn exec_step(step: &str, error: &io::Error) -> ExecError {
    use rustix::io::Errno;
    let text = format!("{step}: {error}");
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => ExecError::StorageFull,
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::NOBUFS) => {
            ExecError::Busy(text)
        }
        _ if error.kind() == io::ErrorKind::WouldBlock => ExecError::Busy(text),
        _ => ExecError::Failed(text),
    }
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
