//! The cgroups of one instance: version 1 hierarchies for limits, version 2 for killing.

use super::fail::{Fail, Step};
use crate::protocol::{CgroupPaths, Cgroups};
use crate::sys;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// The groups, made.
pub(super) struct Groups {
    paths: CgroupPaths,
    /// `main` of version 2, for init.
    pub(super) main: Option<OwnedFd>,
    /// The files by which a process joins version 1: opened by us, written by itself. (A pid
    /// written to cgroup.procs waits for an RCU grace period after idle time, 5-13 ms.)
    tasks: Vec<File>,
    /// Where out-of-memory kills are counted.
    oom: Option<File>,
}

impl Groups {
    /// Makes the groups and sets their limits. What was made goes again at a failure.
    pub(super) fn make(wanted: &Cgroups) -> Result<Self, Fail> {
        let paths = CgroupPaths { v2: wanted.v2.clone(), v1: wanted.v1.clone() };
        let mut groups = Self { paths, main: None, tasks: Vec::new(), oom: None };
        groups.fill(wanted).inspect_err(|_| groups.remove())?;
        Ok(groups)
    }

    fn fill(&mut self, wanted: &Cgroups) -> Result<(), Fail> {
        for dir in wanted.v1.iter().chain(&wanted.v2) {
            make_dir(dir).step(&format!("make the cgroup {dir}"))?;
        }
        for limit in &wanted.limits {
            match put(&limit.path, &limit.text) {
                Err(_) if limit.optional => {}
                other => other.step(&format!("write {:?} to {}", limit.text, limit.path))?,
            }
        }
        for dir in &wanted.v1 {
            let path = format!("{dir}/tasks");
            let file = OpenOptions::new().write(true).open(&path).step(&format!("open {path}"))?;
            self.tasks.push(file);
        }
        if let Some(v2) = &wanted.v2 {
            self.main = Some(sub(v2, "main").step(&format!("make the cgroup {v2}/main"))?);
        }
        let v1 = wanted.v1.iter().map(|dir| format!("{dir}/memory.oom_control"));
        let v2 = wanted.v2.iter().map(|dir| format!("{dir}/memory.events"));
        self.oom = v1.chain(v2).find_map(|path| File::open(path).ok());
        Ok(())
    }

    pub(super) fn paths(&self) -> &CgroupPaths {
        &self.paths
    }

    /// Moves the calling process into the version 1 groups.
    pub(super) fn join(&self) -> io::Result<()> {
        for mut file in &self.tasks {
            file.write_all(b"0")?;
        }
        Ok(())
    }

    /// Moves the calling process into a command's groups.
    pub(super) fn join_command(&self, id: &str) -> io::Result<()> {
        self.join()?;
        match (&self.paths.v2, self.command_dir(id)) {
            (None, Some(dir)) => put(&format!("{dir}/tasks"), "0"),
            _ => Ok(()),
        }
    }

    /// Where a command's own group is: in version 2, or without it in one of version 1, best
    /// the freezer's.
    fn command_dir(&self, id: &str) -> Option<String> {
        let v1 = || self.paths.v1.iter().find(|dir| dir.contains("/freezer/"));
        let parent = self.paths.v2.as_ref().or_else(v1).or(self.paths.v1.first());
        parent.map(|parent| format!("{parent}/x{id}"))
    }

    /// Makes the group of a command; `None` where there is no version 2.
    pub(super) fn command(&self, id: &str) -> io::Result<Option<OwnedFd>> {
        if let Some(v2) = &self.paths.v2 {
            return sub(v2, &format!("x{id}")).map(Some);
        }
        match self.command_dir(id) {
            Some(dir) => fs::create_dir(dir).map(|()| None),
            None => Ok(None),
        }
    }

    /// Kills all of a command's group; false where it has none.
    pub(super) fn kill_command(&self, id: &str) -> bool {
        let Some(dir) = self.command_dir(id).filter(|dir| Path::new(dir).exists()) else {
            return false;
        };
        if self.paths.v2.is_some() { kill_tree(&dir) } else { kill_v1(&dir) }
    }

    /// Removes a command's group; false while something lives in it.
    pub(super) fn remove_command(&self, id: &str) -> bool {
        let Some(dir) = self.command_dir(id) else { return true };
        match fs::remove_dir(dir) {
            Ok(()) => true,
            Err(e) => e.kind() == ErrorKind::NotFound,
        }
    }

    /// Kills everything; false where there is no version 2 group to do it by.
    pub(super) fn kill(&self) -> bool {
        kill_groups(&self.paths)
    }

    pub(super) fn freeze(&self, on: bool) -> io::Result<()> {
        if let Some(v2) = &self.paths.v2 {
            return put(&format!("{v2}/cgroup.freeze"), if on { "1" } else { "0" });
        }
        let state = self.paths.v1.iter().map(|dir| format!("{dir}/freezer.state"));
        match state.into_iter().find(|path| Path::new(path).exists()) {
            Some(path) => put(&path, if on { "FROZEN" } else { "THAWED" }),
            None => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// How many out-of-memory kills there were.
    pub(super) fn oom_kills(&self) -> u64 {
        let Some(mut file) = self.oom.as_ref() else { return 0 };
        let mut text = String::new();
        if file.rewind().and_then(|()| file.read_to_string(&mut text)).is_err() {
            return 0;
        }
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// Removes all groups; waits a little for the kernel to let go of the dead.
    pub(super) fn remove(&self) {
        remove_groups(&self.paths, Duration::from_secs(2));
    }
}

fn make_dir(path: &str) -> io::Result<()> {
    match fs::create_dir(path) {
        // Left over by a start that was cut off: empty, or the removal refuses.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            remove_tree(Path::new(path))?;
            fs::create_dir(path)
        }
        Err(e) if e.kind() == ErrorKind::NotFound => fs::create_dir_all(path),
        other => other,
    }
}

fn sub(dir: &str, name: &str) -> io::Result<OwnedFd> {
    let path = format!("{dir}/{name}");
    match fs::create_dir(&path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(&path, flags, Mode::empty())?)
}

fn put(path: &str, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// Kills all in the groups, thawing them first. Answers whether version 2 did it; without it
/// all pids of the version 1 groups are killed until none is left or two seconds have passed.
pub(crate) fn kill_groups(paths: &CgroupPaths) -> bool {
    for dir in &paths.v1 {
        // Version 1: a frozen process does not die before it is thawed.
        let _ = put(&format!("{dir}/freezer.state"), "THAWED");
    }
    if let Some(v2) = &paths.v2
        && Path::new(v2).exists()
    {
        return kill_tree(v2);
    }
    paths.v1.first().is_some_and(|dir| kill_v1(dir))
}

/// Kills all in a version 1 group, frozen meanwhile where it is the freezer's; tries until none
/// is left or two seconds have passed.
fn kill_v1(dir: &str) -> bool {
    let limit = Instant::now() + Duration::from_secs(2);
    let state = format!("{dir}/freezer.state");
    loop {
        // Elsewhere there is no such file, and the rounds alone must do.
        let _ = put(&state, "FROZEN");
        let left = kill_pids(Path::new(dir));
        let _ = put(&state, "THAWED");
        if left == 0 || Instant::now() > limit {
            return left == 0;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills a version 2 subtree: by `cgroup.kill`, or frozen, killed and thawed.
fn kill_tree(dir: &str) -> bool {
    if put(&format!("{dir}/cgroup.kill"), "1").is_ok() {
        // SIGKILL reaches frozen processes here; those that are made later must not freeze.
        let _ = put(&format!("{dir}/cgroup.freeze"), "0");
        return true;
    }
    let freeze = format!("{dir}/cgroup.freeze");
    let _ = put(&freeze, "1");
    // Frozen processes do not fork: two rounds see all. The limit is for kernels without freeze.
    for _ in 0..100 {
        if kill_pids(Path::new(dir)) == 0 {
            break;
        }
    }
    let _ = put(&freeze, "0");
    true
}

fn kill_pids(dir: &Path) -> usize {
    let mut count = 0;
    for pid in fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines() {
        if let Ok(pid @ 1..) = pid.parse::<i32>() {
            // Already gone is what is wanted.
            let _ = sys::kill(pid, libc::SIGKILL);
            count += 1;
        }
    }
    let subs = fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in subs.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        count += kill_pids(&entry.path());
    }
    count
}

/// Removes the groups with their children, trying for at most `limit`; answers whether none is
/// left.
pub(crate) fn remove_groups(paths: &CgroupPaths, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let mut gone = true;
    for dir in paths.v2.iter().chain(&paths.v1) {
        let mut pause = Duration::from_micros(100);
        gone &= loop {
            match remove_tree(Path::new(dir)) {
                Ok(()) => break true,
                Err(_) if Instant::now() < until => std::thread::sleep(pause),
                Err(_) => break false,
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        };
    }
    gone
}

fn remove_tree(dir: &Path) -> io::Result<()> {
    match fs::remove_dir(dir) {
        Ok(()) => return Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(_) => {}
    }
    for entry in fs::read_dir(dir)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(dir)
}
