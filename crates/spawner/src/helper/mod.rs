//! The helper: a tiny process that forks supervisors, so that the daemon, large and threaded,
//! never forks for an instance.

mod process;

use crate::channel;
use crate::ident;
use crate::protocol::CreateRequest;
use crate::reexecuted::{self, CONNECTION, Reexecuted};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// What a helper's `argv[0]` is.
const NAME: &str = "sandkeep-helper";

/// The first line of `main`: turns the process into a helper where it was started as one, and
/// then never returns. Nothing may be allocated before, as a large helper forks slowly.
pub fn run_if_asked() {
    if reexecuted::asked(NAME) {
        process::run();
    }
}

/// The directories of an instance, in the order in which they travel.
#[derive(Debug, Clone, Copy)]
pub struct CreateFds<'a> {
    /// Run directory: sockets, status files, the root's changes. Nobody else's.
    pub run: BorrowedFd<'a>,
    /// Where the main process's output goes.
    pub log: BorrowedFd<'a>,
    /// `/workspace`.
    pub workspace: BorrowedFd<'a>,
    /// The image's root.
    pub image: BorrowedFd<'a>,
    /// The machine's `/usr`, for the image `host` alone.
    pub usr: Option<BorrowedFd<'a>>,
}

/// The daemon's side of a helper. Dropping it ends the helper; supervisors live on.
#[derive(Debug)]
pub struct Helper(Reexecuted);

impl Helper {
    /// Starts this very program as a helper.
    ///
    /// # Errors
    /// Where no process can be started.
    pub fn spawn() -> io::Result<Self> {
        let exe = Path::new("/proc/self/exe");
        // A command inside can execute what its supervisor was made of (`/proc/self/exe`), and
        // then others there can open that file. Root's is not theirs to write. An ordinary
        // user's may be: those get a sealed copy.
        if !rustix::process::geteuid().is_root()
            && let Ok(copy) = std::fs::read(exe).and_then(|bytes| channel::sealed_memfd(&bytes))
        {
            let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
            // A machine that executes no memory files answers with an error.
            if let Ok(helper) = Self::spawn_with(Path::new(&path)) {
                return Ok(helper);
            }
        }
        Self::spawn_with(exe)
    }

    /// Starts a program that calls [`run_if_asked`] first as a helper.
    ///
    /// # Errors
    /// Where no process can be started.
    pub fn spawn_with(exe: &Path) -> io::Result<Self> {
        Ok(Self(Reexecuted::start(exe, NAME, &[])?))
    }

    /// Has a supervisor forked that creates an instance; answers the daemon's connection to
    /// it (blocking). On it comes `Ready` or `CreateFailed`; its end without either means that
    /// the helper or the supervisor died.
    ///
    /// # Errors
    /// `BrokenPipe` where the helper is dead: start another.
    pub fn create(&self, request: &CreateRequest, fds: CreateFds) -> io::Result<OwnedFd> {
        let (ours, theirs) = channel::pair()?;
        let mut all = vec![theirs.as_fd(), fds.run, fds.log, fds.workspace, fds.image];
        all.extend(fds.usr);
        channel::send(self.0.connection(), request, &all)?;
        Ok(ours)
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.0.pid()
    }

    /// Becomes readable when it dies.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.0.pidfd()
    }

    /// Whether it lives, asked of the kernel now.
    pub fn alive(&self) -> bool {
        ident::alive(self.pidfd())
    }
}
