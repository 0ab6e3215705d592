//! A full disk under the run directory: what ends is still written down.

mod common;

use common::{Dirs, Instance, busybox, command, create, helper, request, wait_until};
use spawner::protocol::{CommandState, ExecFailure};
use std::fs;
use std::process::Command;

/// A tiny file system over a directory, gone with the value.
struct Tiny(std::path::PathBuf);

impl Tiny {
    fn over(dir: std::path::PathBuf) -> Self {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k,mode=700", "tiny"])
            .arg(&dir)
            .status();
        assert!(mounted.expect("run mount").success());
        Self(dir)
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn fill(path: &std::path::Path) {
    use std::io::Write;
    let mut file = fs::File::create(path).expect("make");
    while file.write_all(&[1; 512]).is_ok() {}
}

#[test]
fn ends_are_known_all_the_same() {
    if !common::is_root() {
        eprintln!("a small file system needs root: not run");
        return;
    }
    let helper = helper();
    let dirs = Dirs::new(busybox);
    let tiny = Tiny::over(dirs.path("run"));
    let mut wanted = request();
    let script = "while [ ! -e /workspace/go ]; do sleep 0.02; done; exit 21";
    wanted.entrypoint = Some(["sh", "-c", script].map(String::from).to_vec());
    let mut instance: Instance = create(&helper, dirs, &wanted);
    let running = command("running", &["sh", "-c", "read x; exit 5"]);
    let script = "while [ ! -e /workspace/go1 ]; do sleep 0.02; done; exit 5";
    let running = spawner::protocol::ExecRequest {
        argv: ["sh", "-c", script].map(String::from).to_vec(),
        ..running
    };
    let _pipes = instance.start(&running);
    instance.started("running").expect("started");
    fill(&instance.dirs.path("run/filler"));
    let _pipes2 = instance.start(&command("late", &["true"]));
    let failed = instance.started("late").expect_err("no room");
    assert_eq!((failed.0, failed.2), (ExecFailure::Failed, libc::ENOSPC));
    fs::write(instance.dirs.path("workspace/go1"), "").expect("write");
    assert_eq!(instance.exited("running").wait_status, 5 << 8);
    let text = fs::read(instance.dirs.path("run/xrunning")).expect("its status file");
    let state: CommandState = serde_json::from_slice(&text).expect("whole");
    assert_eq!(state.end.expect("ended").wait_status, 5 << 8);
    fs::write(instance.dirs.path("workspace/go"), "").expect("write");
    let exit = instance.ended();
    assert_eq!(exit.main, Some(21 << 8));
    assert_eq!(instance.exit_file(), exit);
    instance.leaves_nothing();
    wait_until("the supervisor lets go", || !instance.dirs.path("run/sock").exists());
    drop(tiny);
}
