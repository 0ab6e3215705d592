//! Control groups: which controllers limit, and whether a group can be killed whole.

use super::Check;
use std::collections::BTreeSet;

/// What limits need.
const WANTED: [&str; 3] = ["memory", "pids", "cpu"];

/// What is mounted, of `/proc/self/mountinfo`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    v1: BTreeSet<String>,
    v2_root: Option<String>,
}

/// Looks at them.
pub fn checks() -> Vec<Check> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let found = parse(&mounts);
    let v2 = found.v2_root.as_deref().map(|root| {
        std::fs::read_to_string(format!("{root}/cgroup.controllers")).unwrap_or_default()
    });
    judge(&found, v2.as_deref())
}

fn parse(mountinfo: &str) -> Found {
    let mut found = Found::default();
    for line in mountinfo.lines() {
        let Some((mount, kind)) = line.split_once(" - ") else { continue };
        let mut kind = kind.split(' ');
        match (kind.next(), kind.nth(1)) {
            (Some("cgroup"), Some(options)) => {
                found.v1.extend(options.split(',').map(str::to_owned));
            }
            (Some("cgroup2"), _) => found.v2_root = mount.split(' ').nth(4).map(str::to_owned),
            _ => {}
        }
    }
    found
}

fn judge(found: &Found, v2: Option<&str>) -> Vec<Check> {
    let v2_controllers: BTreeSet<&str> = v2.unwrap_or_default().split_whitespace().collect();
    let lacking: Vec<_> = WANTED
        .into_iter()
        .filter(|c| !v2_controllers.contains(c) && !found.v1.contains(*c))
        .collect();
    let kind = match (v2, WANTED.iter().any(|c| found.v1.contains(*c))) {
        (Some(_), true) => "v1 with v2 beside it",
        (Some(_), false) => "v2",
        (None, true) => "v1",
        (None, false) => "none",
    };
    let limits = if lacking.is_empty() {
        Check::ok("cgroup limits", format!("memory, pids and cpu ({kind})"))
    } else {
        Check::note(
            "cgroup limits",
            format!("{} cannot be limited ({kind})", lacking.join(", ")),
            "boot with systemd.unified_cgroup_hierarchy=1, or mount the controllers; \
             in a container, pass the host's cgroups on writable",
        )
    };
    let kill = if v2.is_some() || found.v1.contains("freezer") {
        Check::ok("cgroup kill", kind)
    } else {
        Check::note(
            "cgroup kill",
            "neither cgroup v2 nor the v1 freezer is mounted",
            "mount cgroup2 on /sys/fs/cgroup; without it a command's stray children live on \
             until their instance stops",
        )
    };
    vec![limits, kill]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    const V1: &str = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        31 25 0:27 / /sys/fs/cgroup/cpu rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        32 25 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
    const V2: &str = "33 25 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    fn statuses(mountinfo: &str, v2: Option<&str>) -> Vec<Status> {
        judge(&parse(mountinfo), v2).iter().map(|c| c.status).collect()
    }

    #[test]
    fn each_world_is_told_apart() {
        use Status::{Note, Ok};
        assert_eq!(statuses(V1, None), [Ok, Note], "v1 without a freezer");
        assert_eq!(statuses(&format!("{V1}{V2}"), Some("")), [Ok, Ok], "hybrid");
        assert_eq!(statuses(V2, Some("cpuset cpu io memory pids\n")), [Ok, Ok], "v2");
        assert_eq!(statuses(V2, Some("cpu\n")), [Note, Ok], "v2 without memory and pids");
        assert_eq!(statuses("", None), [Note, Note], "nothing");
    }

    #[test]
    fn what_is_lacking_is_named() {
        let checks = judge(&parse(V2), Some("cpu"));
        assert!(checks[0].found.starts_with("memory, pids cannot"), "{:?}", checks[0]);
    }
}
