//! The signals that ask a process to end.

use tokio::signal::unix::{SignalKind, signal};

/// Catches SIGINT and SIGTERM from now on; the future yields the first one's number. SIGHUP
/// keeps its default, so that `nohup` works.
pub fn asked_to_end() -> std::io::Result<impl Future<Output = u8>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => 2,
            _ = terminate.recv() => 15,
        }
    })
}
