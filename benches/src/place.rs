//! Where it all happens: a directory of our own, and a small root file system.

use anyhow::{Context as _, ensure};
use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// First host id of what runc starts; far from those that our engine gives out.
pub const RUNC_IDS: u32 = 1_500_000_000;

/// Programs and directories.
pub struct Place {
    pub dir: TempDir,
    /// The program under test.
    pub binary: PathBuf,
    /// The bare system calls.
    pub floor: PathBuf,
    /// Busybox and empty directories, owned by root.
    pub rootfs: PathBuf,
    /// The same, owned by the root of what runc starts.
    pub shifted: PathBuf,
}

impl Place {
    /// Makes the directory and both root file systems.
    pub fn new(binary: &Path, floor: &Path) -> anyhow::Result<Self> {
        ensure!(rustix::process::geteuid().is_root(), "the benchmarks need root");
        let dir = tempfile::Builder::new().prefix("sandkeep-bench-").tempdir()?;
        // Ids of instances must be able to pass.
        fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711))?;
        let (rootfs, shifted) = (dir.path().join("rootfs"), dir.path().join("shifted"));
        make(&rootfs, 0)?;
        make(&shifted, RUNC_IDS)?;
        let (binary, floor) = (std::path::absolute(binary)?, std::path::absolute(floor)?);
        Ok(Self { dir, binary, floor, rootfs, shifted })
    }

    /// A directory below ours, made.
    pub fn sub(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.dir.path().join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }
}

fn make(root: &Path, owner: u32) -> anyhow::Result<()> {
    for name in ["", "bin", "dev", "etc", "proc", "run", "sys", "tmp", "workspace"] {
        let dir = root.join(name);
        fs::create_dir_all(&dir)?;
        chown(&dir, Some(owner), Some(owner))?;
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].map(Path::new);
    let busybox = busybox.into_iter().find(|p| p.exists()).context("busybox is missing")?;
    let inside = root.join("bin/busybox");
    fs::copy(busybox, &inside)?;
    chown(&inside, Some(owner), Some(owner))?;
    for name in ["sh", "true", "sleep", "cat"] {
        let link = root.join("bin").join(name);
        symlink("busybox", &link)?;
        lchown(&link, Some(owner), Some(owner))?;
    }
    let passwd = root.join("etc/passwd");
    fs::write(&passwd, "root:x:0:0:root:/root:/bin/sh\n")?;
    Ok(chown(&passwd, Some(owner), Some(owner))?)
}

/// Where control groups are mounted.
pub fn group_roots() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let groups = mounts.lines().filter(|line| line.contains(" - cgroup"));
    groups.filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from).collect()
}

/// Removes the empty control groups that a data directory's instances stood in.
pub fn remove_groups(data: &Path) {
    let node = fs::read_to_string(data.join("node-id")).unwrap_or_default();
    for root in group_roots() {
        // One that is not there, or not empty, is as it should be, or seen by others.
        let _ = fs::remove_dir(root.join(format!("sandkeep-{}", node.trim())));
    }
}
