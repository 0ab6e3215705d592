//! What an instance leaves when nobody of ours keeps it any more.

use spawner::protocol::CgroupPaths;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Wait status of the main process as init wrote it; `None` while it runs, or where init was
/// killed before.
pub(super) fn status(run: &OwnedFd) -> Option<i32> {
    spawner::read_status(run.as_fd()).ok().flatten()
}

/// Kills all in cgroups and removes them; cgroups that are not there are fine. Blocks.
pub(super) fn end_groups(paths: &CgroupPaths) -> io::Result<()> {
    let mut there = paths.v2.iter().chain(&paths.v1).filter(|dir| Path::new(dir).exists());
    match there.next() {
        Some(_) => spawner::kill_cgroups(paths),
        None => Ok(()),
    }
}
