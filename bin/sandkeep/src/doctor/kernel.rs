//! The kernel: its version and what it allows.

use super::Check;
use std::path::Path;

/// The oldest kernel that is supported.
const OLDEST: (u32, u32) = (6, 1);

/// Whether the kernel is new enough.
pub fn version() -> Check {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    judge(&release)
}

fn judge(release: &str) -> Check {
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Check::ok("kernel", release),
        _ => Check::missing(
            "kernel",
            release,
            format!("use Linux {}.{} or newer", OLDEST.0, OLDEST.1),
        ),
    }
}

/// Who runs this: an ordinary user's instances have less.
pub fn user() -> Check {
    if rustix::process::geteuid().is_root() {
        return Check::ok("user", "root");
    }
    Check::note(
        "user",
        "an ordinary user",
        "run `sandkeep serve` as root for limits, other users inside and many user ids",
    )
}

/// What no instance can do without; the others have something that takes their place, or switch
/// a limit off.
const NEEDED: [&str; 4] =
    ["clone3 and pidfd", "user namespaces", "overlay in a user namespace", "seccomp"];

/// What the part that makes instances finds out by trying, in `dir`.
pub fn trials(dir: &Path) -> Vec<Check> {
    spawner::probe(dir).into_iter().map(of_trial).collect()
}

fn of_trial(trial: spawner::Probe) -> Check {
    let spawner::Probe { name, ok, why, cure } = trial;
    match (ok, NEEDED.contains(&name)) {
        (true, _) => Check::ok(name, why),
        (false, true) => Check::missing(name, why, cure),
        (false, false) => Check::note(name, why, cure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn only_what_is_needed_is_missing() {
        let trial = |name, ok| {
            let why = "why".to_owned();
            of_trial(spawner::Probe { name, ok, why, cure: "cure" }).status
        };
        assert_eq!(trial("seccomp", false), Status::Missing);
        assert_eq!(trial("pidfs", false), Status::Note);
        assert_eq!(trial("seccomp", true), Status::Ok);
        let tried = trials(&std::env::temp_dir());
        for name in NEEDED {
            assert!(tried.iter().any(|check| check.name == name), "{name} is not tried");
        }
    }

    #[test]
    fn old_kernels_are_missing_and_named() {
        for (release, status) in [
            ("6.18.0-1-amd64", Status::Ok),
            ("6.1.0", Status::Ok),
            ("7.0-rc1", Status::Ok),
            ("6.0.19", Status::Missing),
            ("5.15.0-91-generic", Status::Missing),
            ("unknown", Status::Missing),
        ] {
            let check = judge(release);
            assert_eq!((check.status, check.found.as_str()), (status, release));
        }
    }
}
