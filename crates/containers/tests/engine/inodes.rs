//! Empty files: no bytes, and yet a disk can be full of them.

use crate::common::{self, Bed, ended, finish, until};
use containers::{Ending, Engine, ExecError, InstanceSpec, NativeEngine};
use std::path::Path;
use std::process::Command;
use types::Limits;

fn multi<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

#[test]
fn an_instance_with_too_many_files_is_stopped() {
    multi(async {
        let bed = Bed::with_box();
        let limits = Limits { memory_mib: 512, vcpu: 1.0, pids: 64, disk_mb: 4 };
        let spec = InstanceSpec { limits, ..bed.spec(1) };
        let instance = bed.engine.start(spec).await.unwrap();
        let script = "i=0; while :; do i=$((i+1)); : > /workspace/$i; done";
        let running = instance.exec(common::shell(script)).await.unwrap();
        let ending = ended(&instance).await;
        assert!(matches!(ending, Ending::DiskFull { .. }), "{ending:?}");
        drop(running);
        instance.release().await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_disk_almost_without_inodes_freezes_the_writers() {
    if !common::root() {
        return;
    }
    multi(async {
        let bed = Bed::new();
        let small = tempfile::tempdir().unwrap();
        let target = small.path().to_str().unwrap();
        let options = "size=256m,nr_inodes=2000";
        let args = ["-t", "tmpfs", "-o", options, "tmpfs", target];
        assert!(Command::new("mount").args(args).status().unwrap().success());
        let data = small.path().join("data");
        {
            let engine = NativeEngine::open(common::options(&data)).unwrap();
            common::import_box(&engine);
            let instance = engine.start(bed.spec(1)).await.unwrap();
            let dir = engine.workspace(&common::object(1)).await.unwrap();
            let full = fill(&dir);
            assert!(full > 100, "{full}");
            let run = data.join("run").join(common::object(1).to_string());
            until("it is frozen", || frozen(&run)).await;
            let refused = instance.exec(common::command(&["true"])).await;
            assert!(matches!(refused, Err(ExecError::StorageFull)), "not refused as it should be");
            for n in 0..full {
                std::fs::remove_file(dir.join(n.to_string())).unwrap();
            }
            until("it is thawed", || !frozen(&run)).await;
            let told = common::sh(&instance, "echo again").await;
            assert_eq!(told.text(), "again\n");
            finish(&instance).await;
            until("all is gone", || containers::leaks(&data).unwrap().is_empty()).await;
            drop(engine);
            common::remove_parents(&data);
        }
        let mut gone = false;
        for _ in 0..100 {
            gone = Command::new("umount").arg(target).status().unwrap().success();
            if gone {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert!(gone);
    });
}

/// Makes empty files until about one inode in a hundred is left.
fn fill(dir: &Path) -> u64 {
    let mut made = 0;
    loop {
        let stat = rustix::fs::statvfs(dir).unwrap();
        if stat.f_favail <= stat.f_files / 100 {
            return made;
        }
        std::fs::File::create(dir.join(made.to_string())).unwrap();
        made += 1;
    }
}

/// What the kernel says of the instance of a run directory.
fn frozen(run: &Path) -> bool {
    let file = std::fs::read(run.join("instance")).unwrap();
    let file: spawner::protocol::InstanceFile = serde_json::from_slice(&file).unwrap();
    let v2 = file.cgroups.v2.iter().map(|dir| format!("{dir}/cgroup.freeze"));
    let v1 = file.cgroups.v1.iter().map(|dir| format!("{dir}/freezer.state"));
    let told = v2.chain(v1).filter_map(|path| std::fs::read_to_string(path).ok());
    told.into_iter().any(|text| matches!(text.trim(), "1" | "FROZEN"))
}
