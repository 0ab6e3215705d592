//! A runtime's `config.json` and `process.json`, of our own making: the same namespaces,
//! capabilities, filter, masks and limits as the native engine's.

use serde_json::{Value, json};
use std::path::Path;
use types::Limits;

/// What a configuration is made of.
#[derive(Debug, Clone)]
pub struct OciSpec<'a> {
    /// The root directory, owned by the instance's ids.
    pub rootfs: &'a Path,
    /// Bound to `/workspace`.
    pub workspace: &'a Path,
    /// The machine's `/usr` is bound read-only: the image is `host`.
    pub host_image: bool,
    /// The main process.
    pub argv: &'a [String],
    /// Its environment, `KEY=value`.
    pub env: &'a [String],
    /// Host name inside.
    pub hostname: &'a str,
    /// First host uid and gid of the instance's 65 536.
    pub id_base: u32,
    /// The cgroup, below the root of each hierarchy.
    pub cgroups_path: &'a str,
    /// Limits of the instance.
    pub limits: &'a Limits,
}

/// What tells something of the machine though it is in the instance's own /proc or /sys.
const MASKED: [&str; 11] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// A process: of the configuration, or of an exec.
pub fn process(argv: &[String], env: &[String], cwd: &str, user: (u32, u32)) -> Value {
    let capabilities = match user.0 {
        0 => spawner::oci_capabilities(),
        // Another user loses everything at the change of ids; the bounding set stays.
        _ => json!({
            "bounding": spawner::CAPABILITIES, "effective": [], "permitted": [],
            "inheritable": [], "ambient": [],
        }),
    };
    json!({
        "terminal": false,
        "user": {"uid": user.0, "gid": user.1, "umask": 0o022},
        "args": argv,
        "env": env,
        "cwd": cwd,
        "capabilities": capabilities,
        "noNewPrivileges": true,
    })
}

/// The whole configuration.
pub fn config(spec: &OciSpec<'_>) -> Value {
    let tmpfs_bytes = spec.limits.memory_mib.saturating_mul(1 << 20) / 2;
    let size = format!("size={tmpfs_bytes}");
    let mount = |to: &str, kind: &str, options: &[&str]| json!({"destination": to, "type": kind, "source": kind, "options": options});
    let bind = |to: &str, from: &Path, options: &[&str]| json!({"destination": to, "type": "bind", "source": from, "options": options});
    let mut mounts = vec![
        mount("/proc", "proc", &["nosuid", "nodev", "noexec"]),
        mount("/sys", "sysfs", &["nosuid", "nodev", "noexec", "ro"]),
        mount("/dev", "tmpfs", &["nosuid", "noexec", "mode=755", "size=64k"]),
        mount(
            "/dev/pts",
            "devpts",
            &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        ),
        mount("/dev/shm", "tmpfs", &["nosuid", "nodev", "noexec", "mode=1777", &size]),
        mount("/tmp", "tmpfs", &["nosuid", "nodev", "mode=1777", &size]),
        mount("/run", "tmpfs", &["nosuid", "nodev", "mode=755", &size]),
        bind("/workspace", spec.workspace, &["bind", "nosuid", "nodev"]),
    ];
    if spec.host_image {
        mounts.push(bind("/usr", Path::new("/usr"), &["bind", "ro", "nosuid", "nodev"]));
    }
    let ids = json!([{"containerID": 0, "hostID": spec.id_base, "size": crate::ids::COUNT}]);
    let memory = spec.limits.memory_mib.saturating_mul(1 << 20);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
    let quota = (spec.limits.vcpu * 100_000.0).round().max(1000.0) as u64;
    let namespaces = ["user", "pid", "mount", "network", "ipc", "uts", "cgroup"];
    json!({
        "ociVersion": "1.0.2",
        "process": process(spec.argv, spec.env, "/workspace", (0, 0)),
        "root": {"path": spec.rootfs, "readonly": false},
        "hostname": spec.hostname,
        "mounts": mounts,
        "linux": {
            "uidMappings": ids,
            "gidMappings": ids,
            "namespaces": namespaces.map(|kind| json!({"type": kind})),
            "cgroupsPath": spec.cgroups_path,
            "resources": {
                "memory": {"limit": memory},
                "cpu": {"quota": quota, "period": 100_000},
                "pids": {"limit": spec.limits.pids},
            },
            "seccomp": spawner::seccomp::oci_json(),
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
            "rootfsPropagation": "private",
        },
    })
}
