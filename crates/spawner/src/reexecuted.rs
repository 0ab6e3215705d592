//! This very program, executed again as a small process of another kind.

use crate::channel;
use crate::ident;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Number of its connection in such a process.
pub(crate) const CONNECTION: i32 = 3;

/// Whether this process was started as `name`, by [`Reexecuted::start`].
pub fn asked(name: &str) -> bool {
    std::env::args_os().next().as_deref() == Some(OsStr::new(name))
}

/// The connection of a process that was started by [`Reexecuted::start`], to be taken once.
///
/// # Errors
/// Where there is no such connection: somebody else gave the process its name.
pub fn connection() -> io::Result<OwnedFd> {
    // JUSTIFICATION: the number is agreed with the parent.
    // SAFETY: it is borrowed for two calls, which fail where nothing is open.
    let fd = unsafe { BorrowedFd::borrow_raw(CONNECTION) };
    rustix::net::sockopt::socket_type(fd)?;
    let own = fd.try_clone_to_owned()?;
    crate::sys::close_number(CONNECTION)?;
    Ok(own)
}

/// The parent's side. Dropping it ends the process.
#[derive(Debug)]
pub struct Reexecuted {
    connection: OwnedFd,
    pid: i32,
    pidfd: OwnedFd,
    child: Mutex<Child>,
}

impl Reexecuted {
    /// Starts `exe` under another name, with nothing of this process but a connection: no
    /// descriptor, no standard streams, and for its environment `env` alone.
    ///
    /// # Errors
    /// Where no process can be started.
    pub fn start(exe: &Path, name: &str, env: &[(&str, &str)]) -> io::Result<Self> {
        let (ours, theirs) = channel::pair()?;
        let theirs_raw = theirs.as_raw_fd();
        let mut command = Command::new(exe);
        command.arg0(name).env_clear().envs(env.iter().copied()).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // JUSTIFICATION: there is no safe way to hand one descriptor to a child.
        // SAFETY: between fork and exec only system calls are made; nothing is allocated.
        unsafe {
            command.pre_exec(move || {
                let theirs = BorrowedFd::borrow_raw(theirs_raw);
                crate::sys::dup_onto(theirs, CONNECTION, false)?;
                crate::sys::close_from(CONNECTION + 1, true)
            });
        }
        let child = command.spawn()?;
        let pid = child.id().cast_signed();
        let pidfd = ident::pidfd_open(pid)?;
        Ok(Self { connection: ours, pid, pidfd, child: Mutex::new(child) })
    }

    /// The connection to it (SOCK_SEQPACKET).
    pub fn connection(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Becomes readable when it dies.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Takes what the kernel keeps of one that died; one that lives stays as it is.
    pub fn reap(&self) {
        let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
    }
}

impl Drop for Reexecuted {
    fn drop(&mut self) {
        // It ends at the end of its connection; killing it spares the wait for that.
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}
