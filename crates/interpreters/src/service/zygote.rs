//! The server's side of the zygote.

use super::{Error, Options};
use crate::engines::EngineBuild;
use crate::protocol::{FromZygote, ToZygote};
use crate::zygote::NAME;
use spawner::{Reexecuted, channel};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How glibc keeps memory there. Each instance of a guest has large tables of which it uses little:
/// mapped afresh they take what is used, taken from memory that was freed they are filled with
/// zeros first. The usual threshold grows with what was freed; a fixed one does not. What a small
/// execution takes and frees stays.
const TUNABLES: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.malloc.mmap_threshold=131072:glibc.malloc.trim_threshold=524288:glibc.malloc.arena_max=2",
);

/// A zygote. It ends with its last worker.
pub(super) struct Zygote {
    process: Reexecuted,
    builds: Vec<EngineBuild>,
    /// What it could not map.
    broken: Vec<(String, String)>,
    /// One request at a time.
    asking: Mutex<()>,
}

/// A worker that was forked.
pub(super) struct Forked {
    pub pid: i32,
    pub pidfd: OwnedFd,
}

impl Zygote {
    /// Starts one and has it map these builds.
    pub async fn start(options: &Options, builds: Vec<EngineBuild>) -> Result<Arc<Self>, Error> {
        let options = options.clone();
        let made = tokio::task::spawn_blocking(move || Self::make(&options, builds)).await;
        let made =
            made.map_err(|e| Error::Start(format!("the start of the zygote broke off: {e}")))??;
        made.mourn();
        Ok(made)
    }

    /// Waits for its end beside everything else: one that somebody killed is a zombie else until a
    /// worker is needed again.
    fn mourn(self: &Arc<Self>) {
        let pidfd = self.process.pidfd().try_clone_to_owned();
        // The call that replaces it is unsafe for types that may close their descriptor, which an
        // `OwnedFd` does not do.
        #[allow(deprecated)]
        let pidfd = pidfd.and_then(|fd| AsyncFd::with_interest(fd, Interest::READABLE));
        // Without a watch it is as said.
        let Ok(pidfd) = pidfd else { return };
        let zygote = Arc::downgrade(self);
        tokio::spawn(async move {
            let _ = pidfd.readable().await;
            if let Some(zygote) = zygote.upgrade() {
                zygote.process.reap();
            }
        });
    }

    fn make(options: &Options, builds: Vec<EngineBuild>) -> Result<Arc<Self>, Error> {
        let failed = |e: io::Error| Error::Start(format!("start the zygote: {e}"));
        let process = Reexecuted::start(&options.program, NAME, &[TUNABLES]).map_err(failed)?;
        let cache = std::path::absolute(&options.cache).map_err(failed)?;
        let warm_bytes = options.warm_bytes;
        let load = ToZygote::Load { cache, builds: builds.clone(), warm_bytes };
        channel::send(process.connection(), &load, &[]).map_err(failed)?;
        match channel::recv(process.connection()).map_err(failed)? {
            Some((FromZygote::Loaded { broken }, _)) => {
                for (build, what) in &broken {
                    tracing::warn!(build, what, "an installed engine cannot be used");
                }
                Ok(Arc::new(Self { process, builds, broken, asking: Mutex::default() }))
            }
            _ => Err(Error::Start("the zygote ended at once".to_owned())),
        }
    }

    /// Whether it lives, asked of the kernel now.
    pub fn is_alive(&self) -> bool {
        spawner::alive(self.process.pidfd())
    }

    /// Whether these are what it was to map.
    pub fn has(&self, builds: &[EngineBuild]) -> bool {
        self.builds == builds
    }

    /// Whether it was to map this build.
    pub fn has_one(&self, build: &EngineBuild) -> bool {
        let same = |own: &EngineBuild| own.name == build.name && own.build() == build.build();
        self.builds.iter().any(same)
    }

    /// Why it could not map a build.
    pub fn broken(&self, build: &EngineBuild) -> Option<&str> {
        let name = build.build();
        self.broken.iter().find(|(broken, _)| *broken == name).map(|(_, what)| what.as_str())
    }

    /// Forks a worker with this socket. Blocks.
    pub fn fork(
        &self,
        ids: Option<u32>,
        socket: BorrowedFd,
        workspace: BorrowedFd,
    ) -> Result<Forked, Error> {
        let failed = |e: io::Error| Error::Start(format!("ask the zygote: {e}"));
        let _one = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = self.process.connection();
        let fork = ToZygote::Fork { ids };
        channel::send(connection, &fork, &[socket, workspace]).map_err(failed)?;
        match channel::recv(connection).map_err(failed)? {
            Some((FromZygote::Forked { pid }, fds)) => {
                let pidfd = fds.into_iter().next();
                let pidfd = pidfd.ok_or_else(|| Error::Start("no pidfd came".to_owned()))?;
                Ok(Forked { pid, pidfd })
            }
            Some((FromZygote::ForkFailed { text }, _)) => Err(Error::Start(text)),
            _ => Err(Error::Start("the zygote died".to_owned())),
        }
    }
}
