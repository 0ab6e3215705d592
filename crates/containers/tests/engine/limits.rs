//! What an instance may use: memory, processes, processor, disk.

use crate::common;

use crate::common::{Bed, ended, finish, sh, until};
use containers::{
    CommandOutcome, Ending, Engine, ExecError, InstanceSpec, Main, NativeEngine, NativeOptions,
};
use types::Limits;

const SMALL: Limits = Limits { memory_mib: 64, vcpu: 0.5, pids: 24, disk_mb: 20 };

fn multi<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

/// Grows without end.
const HOG: &str = "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done";

#[test]
fn memory_that_runs_out_is_named() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.engine.start(InstanceSpec { limits: SMALL, ..bed.spec(1) });
        let instance = instance.await.unwrap();
        let told = sh(&instance, HOG).await;
        assert_eq!(told.code(), 137);
        assert!(
            matches!(
                told.end.as_ref().unwrap().outcome,
                CommandOutcome::Exited { timed_out: false, oom_killed: true, .. }
            ),
            "{told:?}"
        );
        assert_eq!(sh(&instance, "echo fine").await.text(), "fine\n");
        finish(&instance).await;

        let entrypoint = Some(["/bin/sh", "-c", HOG].map(str::to_owned).to_vec());
        let spec = InstanceSpec { limits: SMALL, entrypoint, ..bed.spec(2) };
        let instance = bed.engine.start(spec).await.unwrap();
        let ending = ended(&instance).await;
        assert!(
            matches!(ending, Ending::Main { main: Main::Signal(9), oom: true, .. }),
            "{ending:?}"
        );
        instance.release().await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_fork_bomb_stays_in_its_box() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.engine.start(InstanceSpec { limits: SMALL, ..bed.spec(1) });
        let instance = instance.await.unwrap();
        // The shell gives up at the limit; what it made lives on.
        let told = sh(&instance, "while :; do setsid sleep 1000 & done").await;
        assert_ne!(told.code(), 0, "{told:?}");
        until("the bomb is at its limit", || {
            let usage = futures_now(instance.usage()).unwrap();
            usage.pids >= 20 && usage.pids <= SMALL.pids
        })
        .await;
        finish(&instance).await;
        let spec = InstanceSpec { limits: SMALL, ..bed.spec(2) };
        let instance = bed.engine.start(spec).await.unwrap();
        let running = instance.exec(common::shell("b() { b | b & b; }; b; sleep 1000")).await;
        let end = instance.commands().await;
        assert_eq!(end.len(), 1);
        drop(running);
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

/// A future that never waits.
fn futures_now<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(now) => now,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn limits_are_set_in_the_kernel() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.engine.start(InstanceSpec { limits: SMALL, ..bed.spec(1) });
        let instance = instance.await.unwrap();
        let node = std::fs::read_to_string(bed.dir.path().join("node-id")).unwrap();
        let group = format!("sandkeep-{}/{}", node.trim(), common::object(1));
        let read = |controller: &str, file: &str| {
            let places = [
                format!("/sys/fs/cgroup/{controller}/{group}/{file}"),
                format!("/sys/fs/cgroup/{group}/{file}"),
            ];
            places.iter().find_map(|p| std::fs::read_to_string(p).ok())
        };
        let text = |found: Option<String>| found.unwrap_or_default().trim().to_owned();
        let memory = read("memory", "memory.limit_in_bytes").or(read("memory", "memory.max"));
        assert_eq!(text(memory), (64 << 20).to_string());
        assert_eq!(text(read("pids", "pids.max")), "24");
        let quota = read("cpu", "cpu.cfs_quota_us").or(read("cpu", "cpu.max"));
        assert_eq!(text(quota).split(' ').next(), Some("50000"));
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

#[test]
fn an_instance_over_its_disk_is_stopped() {
    multi(async {
        let bed = Bed::with_box();
        for (n, place) in [(1, "/workspace/big"), (2, "/var-big")] {
            let instance = bed.engine.start(InstanceSpec { limits: SMALL, ..bed.spec(n) });
            let instance = instance.await.unwrap();
            let fill = format!(
                "i=0; while :; do head -c 1000000 /dev/zero >> {place}; sync; usleep 20000; done"
            );
            let running = instance.exec(common::shell(&fill)).await.unwrap();
            let ending = ended(&instance).await;
            assert!(matches!(ending, Ending::DiskFull { .. }), "{ending:?}");
            let told = common::hear(running).await;
            assert_eq!(told.end.unwrap().outcome, CommandOutcome::InstanceGone);
            instance.release().await;
        }
        // Others were not touched, and the same sandbox may start again.
        bed.engine.purge(&common::object(1)).await.unwrap();
        let instance = bed.start(1).await;
        assert_eq!(sh(&instance, "echo again").await.text(), "again\n");
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

#[test]
fn below_the_floor_all_writers_wait() {
    if !common::root() {
        return;
    }
    multi(async {
        // A file system of its own, so that nobody else fills it.
        let bed = Bed::new();
        let small = tempfile::tempdir().unwrap();
        let mount = |args: &[&str]| std::process::Command::new("mount").args(args).status();
        let target = small.path().to_str().unwrap();
        assert!(mount(&["-t", "tmpfs", "-o", "size=64m", "tmpfs", target]).unwrap().success());
        {
            let engine = NativeEngine::open(NativeOptions {
                disk_floor_bytes: Some(36 << 20),
                ..common::options(&small.path().join("data"))
            })
            .unwrap();
            common::import_box(&engine);
            let instance = engine.start(bed.spec(1)).await.unwrap();
            let fill = "i=0; while [ $i -lt 45 ]; do i=$((i+1)); \
                        head -c 1000000 /dev/zero >> /workspace/big || exit 1; \
                        usleep 100000; done; echo whole";
            let running = instance.exec(common::shell(fill)).await.unwrap();
            let dir = engine.workspace(&common::object(1)).await.unwrap();
            let size = || std::fs::metadata(dir.join("big")).map_or(0, |m| m.len());
            let mut last = 0;
            let mut still = 0;
            until("the writer is frozen", || {
                still = if size() == last && last > 10_000_000 { still + 1 } else { 0 };
                last = size();
                still > 60
            })
            .await;
            assert!(last < 44_000_000, "{last}");
            let refused = instance.exec(common::command(&["true"])).await;
            assert!(matches!(refused, Err(ExecError::StorageFull)), "not refused as it should be");
            // Room again: it goes on.
            std::fs::OpenOptions::new()
                .write(true)
                .open(dir.join("big"))
                .unwrap()
                .set_len(0)
                .unwrap();
            let told = common::hear(running).await;
            assert_eq!(told.text(), "whole\n");
            finish(&instance).await;
            until("all is gone", || {
                containers::leaks(&small.path().join("data")).unwrap().is_empty()
            })
            .await;
            drop(engine);
            common::remove_parents(&small.path().join("data"));
        }
        let mut gone = false;
        for _ in 0..100 {
            let status = std::process::Command::new("umount").arg(target).status().unwrap();
            gone = status.success();
            if gone {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert!(gone);
    });
}
