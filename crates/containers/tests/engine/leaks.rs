//! What is left over is found: a look that sees nothing proves nothing.

use crate::common::{Bed, finish, object, root};
use containers::Leak;
use std::path::{Path, PathBuf};
use std::process::Child;

/// A cgroup with a process, ended and removed with this.
struct Orphan {
    group: PathBuf,
    child: Child,
}

impl Orphan {
    fn new(group: PathBuf) -> Self {
        let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let orphan = Self { group, child };
        std::fs::create_dir(&orphan.group).unwrap();
        std::fs::write(orphan.group.join("cgroup.procs"), orphan.child.id().to_string()).unwrap();
        orphan
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for _ in 0..500 {
            if std::fs::remove_dir(&self.group).is_ok() || !self.group.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Where the engine put the cgroup of a running instance.
fn group(dir: &Path, n: u64) -> PathBuf {
    let file = std::fs::read(dir.join("run").join(object(n).to_string()).join("instance")).unwrap();
    let file: spawner::protocol::InstanceFile = serde_json::from_slice(&file).unwrap();
    let group = file.cgroups.v1.into_iter().chain(file.cgroups.v2).next();
    PathBuf::from(group.expect("an instance has a cgroup"))
}

#[test]
fn what_belongs_to_no_instance_is_named() {
    if !root() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bed = Bed::with_box();
        let dir = bed.dir.path();
        let living = bed.start(1).await;
        assert_eq!(containers::leaks(dir).unwrap(), [], "one that runs is no leak");
        let orphan = Orphan::new(group(dir, 1).with_file_name(object(2).to_string()));
        let run = dir.join("run").join(object(3).to_string());
        std::fs::create_dir(&run).unwrap();
        let trash = dir.join("trash/old");
        std::fs::create_dir(&trash).unwrap();
        let pid = orphan.child.id().cast_signed();
        let wanted = [
            Leak::RunDir { path: run.clone() },
            Leak::Process { pid, command: "sleep 600".to_owned() },
            Leak::Cgroup { path: orphan.group.clone() },
            Leak::Trash { path: trash.clone() },
        ];
        assert_eq!(containers::leaks(dir).unwrap(), wanted);
        drop(orphan);
        std::fs::remove_dir(&run).unwrap();
        std::fs::remove_dir(&trash).unwrap();
        finish(&living).await;
        bed.assert_clean().await;
    });
}
