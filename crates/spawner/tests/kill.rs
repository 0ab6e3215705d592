//! What a kill reaches, and what it does not.

mod common;

use common::{Dirs, Instance, busybox, command, create, helper, request, wait_until};
use spawner::protocol::{EndedBy, StopWhy, ToSupervisor};
use std::io::Read;
use std::os::fd::AsFd;

/// Processes inside whose command line has `what`.
fn count(instance: &mut Instance, id: &str, what: &str) -> usize {
    let ran = instance.run(&command(id, &["ps", "-o", "args"]));
    ran.text().lines().filter(|line| line.contains(what)).count()
}

#[test]
fn a_kill_takes_the_whole_tree() {
    if !common::is_root() {
        eprintln!("without cgroups a tree that hides is not found: see ordinary.rs");
    }
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let script = "setsid sleep 7001 & (setsid sh -c 'sleep 7002 & sleep 7003' &) ; sleep 7004";
    let pipes = instance.start(&command("tree", &["sh", "-c", script]));
    instance.started("tree").expect("started");
    let mut round = 0;
    wait_until("four sleep", || {
        round += 1;
        count(&mut instance, &format!("ps{round}"), "sleep 700") >= 4
    });
    instance.send(&ToSupervisor::Kill { id: "tree".to_owned() });
    let end = instance.exited("tree");
    assert_eq!((end.wait_status, end.timed_out, end.instance_gone), (9, false, false));
    if common::is_root() {
        wait_until("none sleeps", || {
            round += 1;
            count(&mut instance, &format!("ps{round}"), "sleep 700") == 0
        });
    }
    drop(pipes);
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn without_version_2_a_kill_reaches_the_tree_as_well() {
    let helper = helper();
    let mut wanted = request();
    wanted.cgroups.v2 = None;
    if wanted.cgroups.v1.is_empty() {
        eprintln!("no version 1 hierarchies here: not run");
        return;
    }
    let mut instance = create(&helper, Dirs::new(busybox), &wanted);
    let script = "(setsid sh -c 'sleep 7012 & sleep 7013' &) ; sleep 7014";
    let _pipes = instance.start(&command("tree", &["sh", "-c", script]));
    instance.started("tree").expect("started");
    let mut round = 0;
    wait_until("three sleep", || {
        round += 1;
        count(&mut instance, &format!("ps{round}"), "sleep 701") >= 3
    });
    instance.send(&ToSupervisor::Kill { id: "tree".to_owned() });
    assert_eq!(instance.exited("tree").wait_status, 9);
    wait_until("none sleeps", || {
        round += 1;
        count(&mut instance, &format!("ps{round}"), "sleep 701") == 0
    });
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn time_is_limited() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let mut wanted = command("slow", &["sh", "-c", "trap '' TERM; sleep 9000"]);
    wanted.timeout_ms = Some(200);
    let ran = instance.run(&wanted);
    assert_eq!((ran.code(), ran.end.timed_out), (137, true));
    let mut wanted = command("quick", &["sh", "-c", "exit 3"]);
    wanted.timeout_ms = Some(60_000);
    let ran = instance.run(&wanted);
    assert_eq!((ran.code(), ran.end.timed_out), (3, false));
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn a_fork_bomb_ends_with_the_instance() {
    if !common::is_root() {
        eprintln!("a fork bomb needs a pids limit: not run without root");
        return;
    }
    let helper = helper();
    let mut wanted = request();
    wanted.cgroups = common::cgroups(256 << 20, 64);
    let mut instance = create(&helper, Dirs::new(busybox), &wanted);
    let bomb = "b() { b | b & b | b & }; b; b; b; sleep 1000";
    let _pipes = instance.start(&command("bomb", &["sh", "-c", bomb]));
    instance.started("bomb").expect("started");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let exit = instance.stop();
    assert_eq!(exit.by, EndedBy::Stopped);
    instance.leaves_nothing();
}

#[test]
fn a_frozen_instance_can_be_stopped() {
    if !common::is_root() {
        eprintln!("freezing needs cgroups: not run without root");
        return;
    }
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let script = "while :; do echo x; sleep 0.01; done";
    let mut pipes = instance.start(&command("loop", &["sh", "-c", script]));
    let mut byte = [0u8; 1];
    pipes.stdout.read_exact(&mut byte).expect("it runs");
    instance.send(&ToSupervisor::Freeze { on: true });
    instance.wait(|m| matches!(m, spawner::protocol::FromSupervisor::Done).then_some(()));
    // What v1 froze does not die before it is thawed.
    for dir in &instance.file.cgroups.v1 {
        let _ = std::fs::write(format!("{dir}/freezer.state"), "FROZEN");
    }
    let exit = instance.stop();
    assert_eq!(exit.by, EndedBy::Stopped);
    assert!(instance.exited("loop").instance_gone);
    instance.leaves_nothing();
}

#[test]
fn a_background_child_does_not_hold_the_end() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let script = "(sleep 0.3; i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789; \
        i=$((i+1)); done; touch /workspace/written) & exit 4";
    let wanted = command("leader", &["sh", "-c", script]);
    let pipes = instance.start(&wanted);
    assert_eq!(instance.exited("leader").wait_status, 4 << 8);
    instance.send(&ToSupervisor::Forget { id: "leader".to_owned() });
    // 120 kB fill a pipe: without a drain the child would wait for ever, or die of SIGPIPE.
    drop(pipes);
    let written = instance.dirs.path("workspace/written");
    wait_until("the background child wrote all", || written.exists());
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn want_of_memory_is_told() {
    if !common::is_root() {
        eprintln!("memory is limited by cgroups: not run without root");
        return;
    }
    let helper = helper();
    let mut wanted = request();
    wanted.cgroups = common::cgroups(48 << 20, 64);
    wanted.tmpfs_bytes = 256 << 20;
    let mut instance = create(&helper, Dirs::new(busybox), &wanted);
    let ran =
        instance.run(&command("dd", &["dd", "if=/dev/zero", "of=/dev/null", "bs=128M", "count=1"]));
    assert_eq!((ran.code(), ran.end.oom, ran.end.instance_gone), (137, true, false), "{ran:?}");
    let wanted = command("self", &["sh", "-c", "kill -9 $$"]);
    let ran = instance.run(&wanted);
    assert_eq!((ran.code(), ran.end.oom, ran.end.timed_out), (137, false, false));
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn an_earlier_want_of_memory_does_not_explain_a_later_kill() {
    if !common::is_root() {
        eprintln!("memory is limited by cgroups: not run without root");
        return;
    }
    let helper = helper();
    let mut wanted = request();
    wanted.cgroups = common::cgroups(48 << 20, 64);
    wanted.tmpfs_bytes = 256 << 20;
    // A background child runs out of memory; main lives on.
    let script = "(dd if=/dev/zero of=/dev/null bs=128M count=1; sleep 4; \
        touch /workspace/now) & exec sleep 1000";
    wanted.entrypoint = Some(["sh", "-c", script].map(String::from).to_vec());
    let mut instance = create(&helper, Dirs::new(busybox), &wanted);
    let now = instance.dirs.path("workspace/now");
    wait_until("the child ran out of memory long ago", || now.exists());
    // From outside, in the instance's own process namespace: main is the oldest but init.
    let children = format!("/proc/{0}/task/{0}/children", instance.file.pid);
    let children = std::fs::read_to_string(children).expect("children of init");
    let main = children.split_ascii_whitespace().next().and_then(|pid| pid.parse().ok());
    let main = spawner::pidfd_open(main.expect("main")).expect("pidfd");
    spawner::signal(main.as_fd(), 9).expect("kill");
    let exit = instance.ended();
    assert_eq!((exit.main, exit.by, exit.oom), (Some(9), EndedBy::Itself, false));
    instance.leaves_nothing();
}

#[test]
fn a_stop_that_comes_after_mains_end_is_not_its_reason() {
    let helper = helper();
    let mut wanted = request();
    let script = "while [ ! -e /workspace/go ]; do sleep 0.02; done; exit 7";
    wanted.entrypoint = Some(["sh", "-c", script].map(String::from).to_vec());
    let instance = create(&helper, Dirs::new(busybox), &wanted);
    let supervisor = spawner::pidfd_open(instance.file.supervisor_pid).expect("pidfd");
    // Held still, so that main's end and the order wait for it together.
    spawner::signal(supervisor.as_fd(), 19).expect("SIGSTOP");
    std::fs::write(instance.dirs.path("workspace/go"), "").expect("write");
    wait_until("init ends", || !spawner::alive(instance.init.as_fd()));
    let note = Some("too late".to_owned());
    instance.send(&ToSupervisor::Stop { grace_ms: 0, why: StopWhy::Stopped, note });
    spawner::signal(supervisor.as_fd(), 18).expect("SIGCONT");
    // By the file: the order, unread at the supervisor's end, may reset the connection.
    wait_until("its end is written", || instance.dirs.path("run/exit").exists());
    let exit = instance.exit_file();
    assert_eq!((exit.main, exit.by, exit.note), (Some(7 << 8), EndedBy::Itself, None));
    instance.leaves_nothing();
}

#[test]
fn a_stop_asks_main_first() {
    let helper = helper();
    let mut wanted = request();
    let script = "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done";
    wanted.entrypoint = Some(["sh", "-c", script].map(String::from).to_vec());
    let mut instance = create(&helper, Dirs::new(busybox), &wanted);
    let log = instance.dirs.path("log/log");
    wait_until("main is up", || std::fs::read(&log).is_ok_and(|text| text == b"up\n"));
    let note = Some("maintenance".to_owned());
    instance.send(&ToSupervisor::Stop { grace_ms: 30_000, why: StopWhy::DiskFull, note });
    let exit = instance.ended();
    assert_eq!((exit.main, exit.by), (Some(3 << 8), EndedBy::DiskFull));
    assert_eq!(exit.note.as_deref(), Some("maintenance"));
    instance.leaves_nothing();
}
