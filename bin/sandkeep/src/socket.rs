//! Sockets in the data directory, for its owner and root alone: `admin.sock` of a server, and that of a
//! directory that is read.

use anyhow::Context as _;
use rustix::fs::{AtFlags, Mode, OFlags};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use tokio::net::UnixListener;

/// A bound socket. Held by whoever holds the lock of the data directory, so one that is there
/// already is a leftover.
pub struct Socket {
    directory: OwnedFd,
    name: &'static str,
    listener: std::os::unix::net::UnixListener,
}

impl Socket {
    /// Binds it, in place of a leftover. Nobody else can connect to it at any time.
    pub fn bind(data: &Path, name: &'static str) -> anyhow::Result<Self> {
        let told = || format!("cannot listen on {}", data.join(name).display());
        Self::bind_in(data, name).with_context(told)
    }

    fn bind_in(data: &Path, name: &'static str) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(data, flags, Mode::empty())?;
        match rustix::fs::unlinkat(&directory, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        // By the descriptor: `sockaddr_un` has no room for long paths. The umask (077) keeps
        // others out from the first moment on.
        let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
        let listener = std::os::unix::net::UnixListener::bind(&path)?;
        rustix::fs::chmodat(&directory, name, Mode::from_raw_mode(0o600), AtFlags::empty())?;
        listener.set_nonblocking(true)?;
        Ok(Self { directory, name, listener })
    }

    /// The listener for the runtime.
    pub fn listener(&self) -> std::io::Result<UnixListener> {
        UnixListener::from_std(self.listener.try_clone()?)
    }

    /// Removes it, so that callers see at once that nobody listens.
    pub fn remove(&self) {
        if let Err(error) = rustix::fs::unlinkat(&self.directory, self.name, AtFlags::empty()) {
            tracing::warn!(%error, socket = self.name, "a socket stays");
        }
    }
}
