//! From the kernel's errors to the engine's.

use crate::Error;
use std::io;

/// Names the step that failed; a full disk keeps its own name.
pub(crate) fn step(step: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let step = step.into();
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::StorageFull,
        _ => Error::Failed(format!("{step}: {error}")),
    }
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
