//! What an instance leaves when nobody of ours keeps it any more.

use crate::cgroup;
use spawner::protocol::InstanceFile;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long killed processes may take to be gone.
const DEATH_MAX: Duration = Duration::from_secs(10);

/// Wait status of the main process as init wrote it; `None` while it runs, or where init was
/// killed before.
pub(super) fn status(run: &OwnedFd) -> Option<i32> {
    spawner::read_status(run.as_fd()).ok().flatten()
}

/// Kills all of an instance and removes its cgroups. Its supervisor is dead. Blocks.
pub(super) fn end(file: &InstanceFile) -> io::Result<()> {
    if let Some(init) = spawner::find(file)? {
        // With its init a pid namespace dies whole.
        let _ = spawner::signal(init.as_fd(), 9);
        let start = Instant::now();
        while spawner::alive(init.as_fd()) {
            if start.elapsed() > DEATH_MAX {
                return Err(io::Error::other("init does not die"));
            }
            // A frozen group must be thawed for a signal to count: kill the group as well.
            cgroup::kill(&file.cgroups);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    cgroup::kill_and_remove(&file.cgroups)
}
