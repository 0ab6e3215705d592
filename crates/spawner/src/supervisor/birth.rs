//! Processes that are born in the instance.

use super::Supervisor;
use crate::ident;
use crate::sys::{self, Fork, flags};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, WaitOptions};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

impl Supervisor {
    /// Forks a child of ours into the instance's pid namespace.
    pub(super) fn fork_inside(&self, cgroup: Option<BorrowedFd>) -> io::Result<Fork> {
        if self.users {
            // We entered the pid namespace ourselves, for our children.
            return sys::fork(0, cgroup);
        }
        self.fork_by_way_of_the_user_namespace(cgroup)
    }

    /// An ordinary user may enter the pid namespace from the user namespace alone, which we
    /// must stay out of: a child goes in, and has a sibling born there.
    fn fork_by_way_of_the_user_namespace(&self, cgroup: Option<BorrowedFd>) -> io::Result<Fork> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let middle = match sys::fork(0, cgroup)? {
            Fork::Child => {
                let entered = sys::enter(self.init.as_fd(), flags::NEWUSER | flags::NEWPID);
                let told = match entered.and_then(|()| sys::fork_sibling()) {
                    Ok(None) => return Ok(Fork::Child),
                    Ok(Some(pid)) => pid,
                    Err(e) => -e.raw_os_error().unwrap_or(libc::EIO),
                };
                // Without it our parent reads nothing, and tells a failure.
                let _ = File::from(write).write_all(&told.to_le_bytes());
                sys::exit_now(0)
            }
            Fork::Parent { pid, .. } => pid,
        };
        drop(write);
        // The sibling holds a write end as well, so the four bytes are read and not the end.
        let mut told = [0u8; 4];
        let waited = rustix::process::waitpid(Pid::from_raw(middle), WaitOptions::empty());
        rustix::io::ioctl_fionbio(&read, true)?;
        waited?;
        File::from(read).read_exact(&mut told)?;
        match i32::from_le_bytes(told) {
            pid @ 1.. => Ok(Fork::Parent { pid, pidfd: ident::pidfd_open(pid)? }),
            errno => Err(io::Error::from_raw_os_error(-errno)),
        }
    }
}
