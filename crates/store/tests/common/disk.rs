//! A disk that is small enough to fill.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A small disk; unmounted however the test ends.
pub struct Disk(PathBuf);

impl Disk {
    pub fn new(mib: u32) -> Option<(tempfile::TempDir, Self)> {
        let dir = tempfile::tempdir().unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"])
            .arg(dir.path())
            .stderr(Stdio::null())
            .status();
        if !done.is_ok_and(|s| s.success()) {
            eprintln!("skipped: this test mounts a tmpfs, which takes root");
            return None;
        }
        let disk = Self(dir.path().into());
        Some((dir, disk))
    }

    /// Takes all space that is left.
    pub fn fill(&self) {
        let mut file =
            fs::OpenOptions::new().create(true).append(true).open(self.0.join("ballast")).unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write(&vec![1; size]).is_ok_and(|n| n > 0) {}
        }
    }

    pub fn free(&self) {
        let _ = fs::remove_file(self.0.join("ballast"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
