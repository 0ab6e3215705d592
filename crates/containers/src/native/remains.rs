//! What an instance leaves when nobody of ours keeps it any more.

use spawner::protocol::CgroupPaths;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the kernel may take to end a supervisor.
const KILL_MAX: Duration = Duration::from_secs(2);

/// Wait status of the main process as init wrote it; `None` while it runs, or where init was
/// killed before.
pub(super) fn status(run: &OwnedFd) -> Option<i32> {
    spawner::read_status(run.as_fd()).ok().flatten()
}

/// Kills a supervisor and waits for its death: what it wrote before is its last word. Blocks.
pub(super) fn end_supervisor(supervisor: BorrowedFd) {
    // Ended meanwhile is as good.
    let _ = spawner::signal(supervisor, 9);
    let begun = Instant::now();
    while spawner::alive(supervisor) && begun.elapsed() < KILL_MAX {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Kills all in cgroups and removes them; cgroups that are not there are fine. Blocks.
pub(super) fn end_groups(paths: &CgroupPaths) -> io::Result<()> {
    let mut there = paths.v2.iter().chain(&paths.v1).filter(|dir| Path::new(dir).exists());
    match there.next() {
        Some(_) => spawner::kill_cgroups(paths),
        None => Ok(()),
    }
}
