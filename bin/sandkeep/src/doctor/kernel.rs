//! The kernel: its version and what it allows.

use super::Check;

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

fn number(path: &str) -> Option<i64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Whether user namespaces can be made.
pub fn namespaces() -> Check {
    let name = "user namespaces";
    if number("/proc/sys/user/max_user_namespaces") == Some(0) {
        return Check::missing(
            name,
            "none are allowed",
            "set user.max_user_namespaces to 10000 or more with sysctl",
        );
    }
    let ordinary = !rustix::process::geteuid().is_root();
    for (file, off, key) in [
        ("/proc/sys/kernel/unprivileged_userns_clone", 0, "kernel.unprivileged_userns_clone=1"),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            1,
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ] {
        if ordinary && number(file) == Some(off) {
            let cure = format!("set {key} with sysctl, or run sandkeep as root");
            return Check::missing(name, "ordinary users may not make them", cure);
        }
    }
    if ordinary {
        return Check::note(
            name,
            "allowed; this is an ordinary user",
            "run `sandkeep serve` as root for limits, other users inside and many user ids",
        );
    }
    Check::ok(name, "allowed")
}

/// What the part that makes instances found out by trying.
pub fn engine() -> Vec<Check> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

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
