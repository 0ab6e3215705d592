//! Ending what is left of an instance whose supervisor is gone.

use crate::ident;
use crate::protocol::{CgroupPaths, InstanceFile};
use crate::supervisor::{kill_groups, remove_groups};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// How long the kernel may take to let go of the dead.
const LIMIT: Duration = Duration::from_secs(5);

/// Kills all of an instance and removes its cgroups: by cgroup, and init by its pidfd where
/// exactly that process still lives. Waits until nothing runs, at most five seconds.
///
/// # Errors
/// `TimedOut` where something still runs or a cgroup stayed; the kernel's otherwise.
pub fn kill_remains(instance: &InstanceFile) -> io::Result<()> {
    let init = ident::find(instance)?;
    if ident::boot_id()? == instance.boot_id {
        kill_groups(&instance.cgroups);
    }
    if let Some(init) = init {
        // Ended meanwhile is as good.
        let _ = ident::signal(init.as_fd(), libc::SIGKILL);
        let mut set = [PollFd::new(&init, PollFlags::IN)];
        let limit = Timespec { tv_sec: LIMIT.as_secs().cast_signed(), tv_nsec: 0 };
        if poll(&mut set, Some(&limit))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    kill_cgroups(&instance.cgroups)
}

/// Kills all in cgroups and removes them: for a start that was cut off before it had an
/// instance file.
///
/// # Errors
/// `TimedOut` where one could not be removed.
pub fn kill_cgroups(paths: &CgroupPaths) -> io::Result<()> {
    kill_groups(paths);
    if remove_groups(paths, LIMIT) { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
}
