//! What earlier servers left and nobody keeps: for `doctor --leaks`. Changes nothing.

use crate::cgroup::{self, Mounts, Tree};
use crate::layout::{Layout, read_json};
use crate::{Error, dirs, fail};
use spawner::protocol::{ExitFile, InstanceFile};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// One thing that is left over.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Leak {
    /// A cgroup of an instance that does not run.
    Cgroup {
        /// Where it is.
        path: PathBuf,
    },
    /// A file system mounted below the data directory.
    Mount {
        /// Where it is.
        path: PathBuf,
    },
    /// A process in a cgroup of an instance that does not run, or a supervisor without a run
    /// directory.
    Process {
        /// Its id.
        pid: i32,
        /// Its command line.
        command: String,
    },
    /// A directory in `run/` without a living or an ended instance.
    RunDir {
        /// Where it is.
        path: PathBuf,
    },
    /// Something in the trash: removed when a server starts.
    Trash {
        /// Where it is.
        path: PathBuf,
    },
}

impl std::fmt::Display for Leak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cgroup { path } => write!(f, "cgroup {}", path.display()),
            Self::Mount { path } => write!(f, "mount {}", path.display()),
            Self::Process { pid, command } => write!(f, "process {pid} {command}"),
            Self::RunDir { path } => write!(f, "run directory {}", path.display()),
            Self::Trash { path } => write!(f, "trash {}", path.display()),
        }
    }
}

/// Everything of this data directory that belongs to no instance. Right only while no instance
/// starts or stops.
pub fn leaks(data_dir: &Path) -> Result<Vec<Leak>, Error> {
    let layout = Layout::open(data_dir)?;
    let mut found = Vec::new();
    let mut living = BTreeSet::new();
    for (name, _) in layout.run_dirs().map_err(fail::step("read the run directories"))? {
        let path = layout.path.join("run").join(&name);
        let Ok(run) = dirs::open_at(&layout.run, &*name) else { continue };
        let ended = read_json::<ExitFile>(&run, "exit").is_some();
        if !ended && lives(&run) {
            living.insert(name);
        } else if !ended {
            found.push(Leak::RunDir { path });
        }
    }
    let cgroup_name = layout.cgroup_name();
    for parent in places(&cgroup_name) {
        for child in cgroup::children(&parent) {
            let name = child.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !living.contains(&name) {
                processes(&child, &mut found);
                found.push(Leak::Cgroup { path: child });
            }
        }
    }
    mounts(&layout.path, &mut found);
    supervisors(&layout, &mut found);
    for name in dirs::names(dirs_trash(&layout)?, 10_000).unwrap_or_default() {
        let name = name.to_string_lossy().into_owned();
        found.push(Leak::Trash { path: layout.path.join("trash").join(name) });
    }
    Ok(found)
}

fn dirs_trash(layout: &Layout) -> Result<OwnedFd, Error> {
    dirs::open_at(&layout.root, "trash").map_err(fail::step("open the trash"))
}

/// Whether an init stands behind a run directory.
fn lives(run: &OwnedFd) -> bool {
    let file = read_json::<InstanceFile>(run, "instance");
    file.is_some_and(|file| matches!(spawner::find(&file), Ok(Some(_))))
}

/// Where parents of this name can be: at the root of a hierarchy or in our own group.
fn places(name: &str) -> Vec<PathBuf> {
    let mounts = Mounts::detect();
    let v1 = mounts.v1.iter().map(|hierarchy| &hierarchy.place);
    let places = mounts.v2.iter().chain(v1);
    let mut all: Vec<_> = places.flat_map(|p| [p.root.join(name), p.own.join(name)]).collect();
    all.sort();
    all.dedup();
    all.retain(|path| path.is_dir());
    all
}

fn processes(group: &Path, found: &mut Vec<Leak>) {
    for child in cgroup::children(group) {
        processes(&child, found);
    }
    let listed = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in listed.lines().filter_map(|line| line.parse().ok()) {
        let leak = Leak::Process { pid, command: command(pid) };
        if !found.contains(&leak) {
            found.push(leak);
        }
    }
}

fn command(pid: i32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned()
}

fn mounts(data_dir: &Path, found: &mut Vec<Leak>) {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for line in text.lines() {
        let Some(point) = line.split(' ').nth(4) else { continue };
        let path = PathBuf::from(point.replace("\\040", " "));
        if path.starts_with(data_dir) && path != data_dir {
            found.push(Leak::Mount { path });
        }
    }
}

/// Supervisors keep their run directory open: one whose directory was removed, or moved into
/// the trash, is nobody's.
fn supervisors(layout: &Layout, found: &mut Vec<Leak>) {
    let trash = layout.path.join("trash");
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let cwd = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        let open = std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let mut held = open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).chain([cwd]);
        let own = pid == std::process::id().cast_signed();
        if !own && held.any(|path| path != trash && path.starts_with(&trash)) {
            found.push(Leak::Process { pid, command: command(pid) });
        }
    }
}

/// Removes the empty cgroups that engines over this data directory made as parents: for those
/// who delete a data directory. Ones in use stay.
pub fn remove_cgroup_parents(data_dir: &Path) -> Result<(), Error> {
    let layout = Layout::open(data_dir)?;
    for parent in places(&layout.cgroup_name()) {
        match std::fs::remove_dir(&parent) {
            Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            other => other.map_err(fail::step("remove a cgroup"))?,
        }
    }
    Ok(())
}

/// Whether memory, pids and cpu can be limited by this process on this machine: for `doctor`.
pub fn probe_limits() -> [bool; 3] {
    let name = format!("sandkeep-doctor-{}", std::process::id());
    let tree = Tree::prepare(&Mounts::detect(), &name);
    let limits = tree.limits();
    for parent in tree.parents() {
        let _ = std::fs::remove_dir(parent);
    }
    limits
}
