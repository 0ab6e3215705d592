//! Ordinary-user mode. Root runs these as another user, in a process of its own.

mod common;

use common::{Dirs, Instance, busybox, command, create, helper, request, wait_until};
use spawner::protocol::{EndedBy, ExecFailure, ToSupervisor};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// As an ordinary user: goes on. As root: runs this test again as one, and answers false.
fn ordinary(test: &str) -> bool {
    if !common::is_root() {
        return true;
    }
    let home = tempfile::tempdir().expect("a directory");
    let path = |name: &str| home.path().join(name);
    std::fs::copy(std::env::current_exe().expect("exe"), path("test")).expect("copy");
    std::fs::copy(env!("CARGO_BIN_EXE_spawner-helper"), path("helper")).expect("copy");
    for name in ["", "test", "helper"] {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path(name), mode).expect("chmod");
    }
    let mut command = Command::new(path("test"));
    command.args(["--exact", test, "--nocapture"]).current_dir("/").env("HELPER", path("helper"));
    let status = command.uid(65533).gid(65533).status().expect("run");
    assert!(status.success(), "{test} as an ordinary user: {status}");
    false
}

#[test]
fn created_used_and_stopped() {
    if !ordinary("created_used_and_stopped") {
        return;
    }
    let helper = helper();
    let mut instance = Instance::new(&helper);
    assert_eq!(instance.file.id_base, None);
    let ran = instance.sh("one", "id -u; echo x > /new; cat /new; echo y > /workspace/y; exit 7");
    assert_eq!((ran.code(), ran.text().as_str()), (7, "0\nx\n"), "{ran:?}");
    let mut wanted = command("ada", &["true"]);
    wanted.user = Some("ada".to_owned());
    let _pipes = instance.start(&wanted);
    assert_eq!(instance.started("ada").expect_err("no ids").0, ExecFailure::UserNotFound);
    let status = instance.run(&command("self", &["cat", "/proc/self/status"])).text();
    for line in ["CapEff:\t00000000a80425fb", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{status}");
    }
    let ran = instance.sh("hidden", "cat /proc/1/environ /proc/1/fd/3");
    assert!(ran.code() != 0 && ran.stdout.is_empty(), "{ran:?}");
    let exit = instance.stop();
    assert_eq!(exit.by, EndedBy::Stopped);
    instance.leaves_nothing();
}

#[test]
fn kills_and_limits_of_time() {
    if !ordinary("kills_and_limits_of_time") {
        return;
    }
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let script = "setsid sleep 7101 & sleep 7102 & (sleep 7103); true";
    let _pipes = instance.start(&command("tree", &["sh", "-c", script]));
    instance.started("tree").expect("started");
    let count = |instance: &mut Instance, id: String| {
        let text = instance.run(&command(&id, &["ps", "-o", "args"])).text();
        text.lines().filter(|line| line.contains("sleep 710")).count()
    };
    let mut round = 0;
    wait_until("three sleep", || {
        round += 1;
        count(&mut instance, format!("up{round}")) >= 3
    });
    instance.send(&ToSupervisor::Kill { id: "tree".to_owned() });
    assert_eq!(instance.exited("tree").wait_status, 9);
    wait_until("none sleeps", || {
        round += 1;
        count(&mut instance, format!("down{round}")) == 0
    });
    let mut wanted = command("slow", &["sleep", "9000"]);
    wanted.timeout_ms = Some(100);
    let ran = instance.run(&wanted);
    assert_eq!((ran.code(), ran.end.timed_out), (137, true));
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn main_and_backstop() {
    if !ordinary("main_and_backstop") {
        return;
    }
    let helper = helper();
    let mut wanted = request();
    wanted.entrypoint = Some(["sh", "-c", "echo hi; exit 4"].map(String::from).to_vec());
    let mut instance = create(&helper, Dirs::new(busybox), &wanted);
    assert_eq!(instance.ended().main, Some(4 << 8));
    let mut wanted = request();
    wanted.inactivity_ms = 200;
    let mut instance = create(&helper, Dirs::new(busybox), &wanted);
    let (nobody, _) = spawner::channel::pair().expect("pair");
    instance.connection = nobody;
    let exit = instance.dirs.path("run/exit");
    wait_until("the backstop", || exit.exists());
    assert_eq!(instance.exit_file().by, EndedBy::Inactivity);
}

#[test]
fn the_machines_usr() {
    if !ordinary("the_machines_usr") {
        return;
    }
    let helper = helper();
    let mut wanted = request();
    wanted.host_image = true;
    let mut instance = create(&helper, Dirs::new(common::host_skeleton), &wanted);
    let ran = instance.run(&command("perl", &["perl", "-e", "print 6 * 7"]));
    assert_eq!((ran.code(), ran.text().as_str()), (0, "42"));
    assert_ne!(instance.sh("write", "touch /usr/x").code(), 0);
    assert_eq!(
        instance.sh("sources", "ls /usr/src/ /usr/local/etc/ | grep -v :").text().trim(),
        ""
    );
    instance.stop();
    instance.leaves_nothing();
}
