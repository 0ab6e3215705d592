//! Killing and removing groups that nobody keeps any more.

use spawner::protocol::CgroupPaths;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kills everything in an instance's groups and removes them. Groups that are not there are
/// fine. Blocks for 10 s at most.
pub(crate) fn kill_and_remove(paths: &CgroupPaths) -> io::Result<()> {
    let dirs: Vec<PathBuf> = paths.v2.iter().chain(&paths.v1).map(PathBuf::from).collect();
    let mut last = None;
    for _ in 0..200 {
        last = None;
        for dir in &dirs {
            if dir.exists() {
                kill_dir(dir);
                if let Err(error) = remove(dir) {
                    last = Some(error);
                }
            }
        }
        if last.is_none() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    last.map_or(Ok(()), Err)
}

/// Sends SIGKILL to all in an instance's groups, frozen ones too.
pub(crate) fn kill(paths: &CgroupPaths) {
    for dir in paths.v2.iter().chain(&paths.v1) {
        kill_dir(Path::new(dir));
    }
}

/// Sends SIGKILL to all below a group: at once where the kernel can, else one by one. A frozen
/// v1 group dies only when thawed.
fn kill_dir(dir: &Path) {
    if std::fs::write(dir.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for child in children(dir) {
        kill_dir(&child);
    }
    for pid in std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines() {
        if let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    let _ = std::fs::write(dir.join("freezer.state"), "THAWED");
}

/// Groups are not deep: the supervisor makes two levels, and nobody inside can make more.
fn remove(dir: &Path) -> io::Result<()> {
    for child in children(dir) {
        remove(&child)?;
    }
    match std::fs::remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The groups right below one.
pub(crate) fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}
