//! Cgroups: where they are on this machine, and what an instance gets.
//!
//! Three worlds: v1 (limits and freezer on v1), v2 (everything there), and hybrid (limits on
//! v1, kill and freeze on a v2 tree without controllers). The supervisor makes an instance's
//! groups from the plan made here; the daemon only makes their parents.

mod mounts;

pub(crate) use mounts::Mounts;

use spawner::protocol::{CgroupFile, CgroupPaths, Cgroups};
use std::io;
use std::path::{Path, PathBuf};
use types::Limits;

/// The controllers that limits need.
const WANTED: [&str; 3] = ["memory", "pids", "cpu"];
/// Period of the processor limit, µs.
const PERIOD_US: u64 = 100_000;
/// The smallest quota that the kernel takes, µs.
const MIN_QUOTA_US: u64 = 1000;

/// One v1 hierarchy that we use.
#[derive(Debug, Clone, PartialEq, Eq)]
struct V1 {
    controllers: Vec<String>,
    parent: PathBuf,
}

/// The parents of all instances of one data directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    v2: Option<PathBuf>,
    /// Controllers that limit on v2.
    v2_controllers: Vec<String>,
    v1: Vec<V1>,
}

impl Tree {
    /// Makes the parents named `name` wherever this process may. What it may not is left out:
    /// [`Tree::limits`] tells.
    pub fn prepare(mounts: &Mounts, name: &str) -> Self {
        let mut tree = Self::default();
        if let Some(v2) = &mounts.v2 {
            match v2_parent(&v2.root, &v2.own, name) {
                Ok((parent, controllers)) => {
                    tree.v2 = Some(parent);
                    tree.v2_controllers = controllers;
                }
                Err(error) => tracing::warn!(%error, "no cgroup v2 for instances"),
            }
        }
        for hierarchy in &mounts.v1 {
            let used = |c: &String| {
                WANTED.contains(&c.as_str())
                    || (tree.v2.is_none() && matches!(c.as_str(), "cpuacct" | "freezer"))
            };
            if !hierarchy.controllers.iter().any(used) {
                continue;
            }
            let made = make(&hierarchy.place.root.join(name))
                .or_else(|_| make(&hierarchy.place.own.join(name)));
            match made {
                Ok(parent) => {
                    tree.v1.push(V1 { controllers: hierarchy.controllers.clone(), parent });
                }
                Err(error) => tracing::warn!(
                    %error, controllers = ?hierarchy.controllers, "no cgroup v1 for instances"
                ),
            }
        }
        tree
    }

    /// Whether memory, pids and cpu are limited.
    pub fn limits(&self) -> [bool; 3] {
        WANTED.map(|c| self.v2_controllers.iter().any(|have| have == c) || self.v1(c).is_some())
    }

    /// Whether a group can be killed whole.
    pub fn kills(&self) -> bool {
        self.v2.is_some() || self.v1("freezer").is_some()
    }

    fn v1(&self, controller: &str) -> Option<&V1> {
        self.v1.iter().find(|h| h.controllers.iter().any(|c| c == controller))
    }

    /// The groups of an instance named `name`.
    pub fn paths(&self, name: &str) -> CgroupPaths {
        CgroupPaths {
            v2: self.v2.as_deref().map(|parent| text(&parent.join(name))),
            v1: self.v1.iter().map(|h| text(&h.parent.join(name))).collect(),
        }
    }

    /// Every parent.
    pub fn parents(&self) -> Vec<PathBuf> {
        self.v2.iter().chain(self.v1.iter().map(|h| &h.parent)).cloned().collect()
    }

    /// What the supervisor makes and writes for an instance.
    pub fn plan(&self, name: &str, limits: &Limits) -> Cgroups {
        let CgroupPaths { v2, v1 } = self.paths(name);
        let bytes = limits.memory_mib.saturating_mul(1 << 20).to_string();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
        let quota = ((limits.vcpu * PERIOD_US as f64).round() as u64).max(MIN_QUOTA_US);
        let mut files = Vec::new();
        let mut put = |dir: &Path, file: &str, text_of: String, optional| {
            files.push(CgroupFile { path: text(&dir.join(file)), text: text_of, optional });
        };
        for controller in WANTED {
            if let (Some(v2), true) =
                (&v2, self.v2_controllers.iter().any(|have| have == controller))
            {
                let dir = Path::new(v2);
                match controller {
                    "memory" => {
                        put(dir, "memory.max", bytes.clone(), false);
                        put(dir, "memory.swap.max", "0".into(), true);
                    }
                    "pids" => put(dir, "pids.max", limits.pids.to_string(), false),
                    _ => put(dir, "cpu.max", format!("{quota} {PERIOD_US}"), false),
                }
            } else if let Some(v1) = self.v1(controller) {
                let dir = v1.parent.join(name);
                match controller {
                    "memory" => {
                        put(&dir, "memory.limit_in_bytes", bytes.clone(), false);
                        put(&dir, "memory.memsw.limit_in_bytes", bytes.clone(), true);
                    }
                    "pids" => put(&dir, "pids.max", limits.pids.to_string(), false),
                    _ => {
                        put(&dir, "cpu.cfs_period_us", PERIOD_US.to_string(), false);
                        put(&dir, "cpu.cfs_quota_us", quota.to_string(), false);
                    }
                }
            }
        }
        Cgroups { v2, v1, limits: files }
    }
}

fn text(path: &Path) -> String {
    // Mount points of cgroups are made by the system; one that is not UTF-8 fails at its use.
    path.to_string_lossy().into_owned()
}

fn make(path: &Path) -> io::Result<PathBuf> {
    match std::fs::create_dir(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?;
        }
        Err(error) => return Err(error),
    }
    Ok(path.to_owned())
}

/// The parent on v2 and the controllers that work below it: below the root where that is
/// ours, else below our own (delegated) group.
fn v2_parent(root: &Path, own: &Path, name: &str) -> io::Result<(PathBuf, Vec<String>)> {
    if let Ok(parent) = make(&root.join(name)) {
        enable(root);
        enable(&parent);
        return Ok((parent.clone(), enabled(&parent)));
    }
    let parent = make(&own.join(name))?;
    // A group that has processes of its own cannot hand controllers down: ours move to a leaf.
    if !controllers(&own.join("cgroup.controllers")).is_empty() {
        let leaf = make(&own.join(format!("{name}-daemon")))?;
        let moved = std::fs::write(leaf.join("cgroup.procs"), std::process::id().to_string());
        if let Err(error) = moved {
            tracing::warn!(%error, "the daemon cannot leave its delegated cgroup");
        }
        enable(own);
        enable(&parent);
    }
    Ok((parent.clone(), enabled(&parent)))
}

/// Hands down what can be handed down; one by one, as a refused one spoils the others.
fn enable(dir: &Path) {
    for controller in controllers(&dir.join("cgroup.controllers")) {
        if WANTED.contains(&controller.as_str()) {
            let file = dir.join("cgroup.subtree_control");
            if let Err(error) = std::fs::write(&file, format!("+{controller}")) {
                tracing::warn!(%error, controller, dir = %dir.display(), "controller stays off");
            }
        }
    }
}

fn enabled(dir: &Path) -> Vec<String> {
    let mut all = controllers(&dir.join("cgroup.subtree_control"));
    all.retain(|c| WANTED.contains(&c.as_str()));
    all
}

fn controllers(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The groups right below one.
pub(crate) fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

/// What a running instance uses, of its groups.
pub(crate) fn usage(paths: &CgroupPaths) -> crate::Usage {
    let dirs = || paths.v2.iter().chain(&paths.v1).map(Path::new);
    let number = |names: &[&str]| {
        dirs().find_map(|dir| {
            names.iter().find_map(|name| {
                std::fs::read_to_string(dir.join(name)).ok()?.trim().parse::<u64>().ok()
            })
        })
    };
    let v2_cpu = paths.v2.as_deref().and_then(|dir| {
        let text = std::fs::read_to_string(Path::new(dir).join("cpu.stat")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        line.trim().parse::<u64>().ok()
    });
    crate::Usage {
        memory_bytes: number(&["memory.current", "memory.usage_in_bytes"]).unwrap_or(0),
        pids: number(&["pids.current"]).unwrap_or(0),
        cpu_us: v2_cpu.or_else(|| Some(number(&["cpuacct.usage"])? / 1000)).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
