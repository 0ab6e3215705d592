//! Daemons, helpers and supervisors die; what they knew does not.

mod common;

use common::{Dirs, Instance, busybox, command, create, helper, request, wait_until};
use spawner::protocol::{EndedBy, StopWhy, ToSupervisor};
use std::io::Read;
use std::os::fd::AsFd;

#[test]
fn another_connection_takes_over() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let _ended = instance.start(&command("ended", &["sh", "-c", "exit 9"]));
    instance.exited("ended");
    let _running = instance.start(&command("running", &["sh", "-c", "sleep 0.5; exit 8"]));
    instance.started("running").expect("started");
    let old = instance.connection.try_clone().expect("dup");
    let (version, commands) = instance.reconnect();
    assert_eq!(version, spawner::protocol::VERSION);
    let state = |id: &str| commands.iter().find(|c| c.id == id).expect("known").clone();
    assert_eq!(state("ended").end.expect("ended").wait_status, 9 << 8);
    assert_eq!(state("running").end, None);
    assert_eq!(state("running").argv, ["sh", "-c", "sleep 0.5; exit 8"]);
    // The older connection is closed: after what was sent before it says its end.
    while spawner::channel::recv_text(old.as_fd()).expect("receive").is_some() {}
    assert_eq!(instance.exited("running").wait_status, 8 << 8);
    instance.send(&ToSupervisor::Forget { id: "ended".to_owned() });
    instance.send(&ToSupervisor::Forget { id: "running".to_owned() });
    assert!(instance.reconnect().1.is_empty());
    assert_eq!(instance.sh("new", "echo works").text(), "works\n");
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn without_a_daemon_a_command_writes_on_and_its_end_is_known() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let script = "dd if=/dev/zero bs=1M count=8 2>/dev/null; exit 6";
    let pipes = instance.start(&command("big", &["sh", "-c", script]));
    instance.started("big").expect("started");
    drop(pipes);
    let (nobody, _) = spawner::channel::pair().expect("pair");
    instance.connection = nobody;
    let file = instance.dirs.path("run/xbig");
    wait_until("the status file", || file.exists());
    let (_, commands) = instance.reconnect();
    assert_eq!(commands[0].end.as_ref().expect("ended").wait_status, 6 << 8);
    let text = std::fs::read(&file).expect("the status file");
    assert_eq!(
        serde_json::from_slice::<spawner::protocol::CommandState>(&text).expect("json"),
        commands[0]
    );
    instance.send(&ToSupervisor::Forget { id: "big".to_owned() });
    wait_until("the file is deleted", || !file.exists());
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn the_supervisor_is_killed_and_mains_code_is_known() {
    let helper = helper();
    let mut wanted = request();
    let script = "echo up; while [ ! -e /workspace/go ]; do sleep 0.02; done; echo still; exit 21";
    wanted.entrypoint = Some(["sh", "-c", script].map(String::from).to_vec());
    let instance = create(&helper, Dirs::new(busybox), &wanted);
    let supervisor = spawner::pidfd_open(instance.file.supervisor_pid).expect("pidfd");
    spawner::signal(supervisor.as_fd(), 9).expect("kill");
    wait_until("the supervisor is dead", || !spawner::alive(supervisor.as_fd()));
    assert!(spawner::alive(instance.init.as_fd()), "init lives on");
    assert!(spawner::find(&instance.file).expect("find").is_some());
    let run = common::dir_fd(&instance.dirs.path("run"));
    assert_eq!(spawner::read_status(run.as_fd()).expect("read"), None);
    assert!(spawner::connect(run.as_fd()).is_err());
    std::fs::write(instance.dirs.path("workspace/go"), "").expect("write");
    wait_until("init ends", || !spawner::alive(instance.init.as_fd()));
    assert_eq!(spawner::read_status(run.as_fd()).expect("read"), Some(21 << 8));
    assert!(spawner::find(&instance.file).expect("find").is_none());
    spawner::kill_remains(&instance.file).expect("nothing is left");
    for dir in instance.file.cgroups.v1.iter().chain(&instance.file.cgroups.v2) {
        assert!(!std::path::Path::new(dir).exists(), "{dir}");
    }
}

#[test]
fn a_supervisor_that_stands_still_is_known_and_nobody_waits_for_it() {
    let helper = helper();
    let instance = Instance::new(&helper);
    let run = common::dir_fd(&instance.dirs.path("run"));
    let found = |file| spawner::find_supervisor(file, run.as_fd()).expect("find");
    let supervisor = found(&instance.file).expect("it lives");
    let mut other = instance.file.clone();
    other.supervisor_pid = std::process::id().cast_signed();
    assert!(found(&other).is_none(), "somebody else has the pid");
    spawner::signal(supervisor.as_fd(), 19).expect("SIGSTOP");
    let mut waiting = Vec::new();
    let full = loop {
        match spawner::connect(run.as_fd()) {
            Ok(socket) => waiting.push(socket),
            Err(error) => break error,
        }
        assert!(waiting.len() < 10_000, "the door takes all");
    };
    assert_eq!(full.kind(), std::io::ErrorKind::WouldBlock);
    // Known by its child alone now, even a dead one.
    spawner::signal(instance.init.as_fd(), 9).expect("kill");
    wait_until("init is dead", || !spawner::alive(instance.init.as_fd()));
    let again = found(&instance.file).expect("it lives");
    spawner::signal(again.as_fd(), 9).expect("kill");
    wait_until("it is dead", || !spawner::alive(supervisor.as_fd()));
    spawner::kill_remains(&instance.file).expect("kill");
    assert!(found(&instance.file).is_none());
}

#[test]
fn remains_are_killed() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let _pipes = instance.start(&command("stay", &["sh", "-c", "setsid sleep 8001 & sleep 8002"]));
    instance.started("stay").expect("started");
    let supervisor = spawner::pidfd_open(instance.file.supervisor_pid).expect("pidfd");
    spawner::signal(supervisor.as_fd(), 9).expect("kill");
    wait_until("the supervisor is dead", || !spawner::alive(supervisor.as_fd()));
    spawner::kill_remains(&instance.file).expect("kill");
    assert!(!spawner::alive(instance.init.as_fd()));
    spawner::kill_remains(&instance.file).expect("again");
}

#[test]
fn the_helper_is_killed_and_instances_live() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let pid = helper.pid();
    let pidfd = spawner::pidfd_open(pid).expect("pidfd");
    spawner::signal(pidfd.as_fd(), 9).expect("kill");
    wait_until("the helper is dead", || !helper.alive());
    assert_eq!(instance.sh("on", "echo on").text(), "on\n");
    let wanted = request();
    let dirs = Dirs::new(busybox);
    let run = common::dir_fd(&dirs.path("run"));
    let fd = run.as_fd();
    let fds = spawner::CreateFds { run: fd, log: fd, workspace: fd, image: fd, usr: None };
    let refused = helper.create(&wanted, fds).expect_err("it is dead");
    assert_eq!(refused.kind(), std::io::ErrorKind::BrokenPipe);
    drop(helper);
    assert_eq!(instance.sh("later", "echo later").text(), "later\n");
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn alone_for_too_long() {
    let helper = helper();
    let mut wanted = request();
    wanted.inactivity_ms = 300;
    let mut instance = create(&helper, Dirs::new(busybox), &wanted);
    // A command holds it; a background child does not, and is asked to end first.
    let script = "(trap 'echo asked > /workspace/asked; exit' TERM; while :; do sleep 0.05; done) &
        sleep 1; touch /workspace/kept";
    let pipes = instance.start(&command("hold", &["sh", "-c", script]));
    instance.started("hold").expect("started");
    drop(pipes);
    let (nobody, _) = spawner::channel::pair().expect("pair");
    instance.connection = nobody;
    let exit = instance.dirs.path("run/exit");
    wait_until("the backstop", || exit.exists());
    assert_eq!(instance.exit_file().by, EndedBy::Inactivity);
    assert!(instance.dirs.path("workspace/kept").exists());
    assert!(instance.dirs.path("workspace/asked").exists());
    wait_until("init is gone", || !spawner::alive(instance.init.as_fd()));
    let sock = instance.dirs.path("run/sock");
    wait_until("the socket is gone", || !sock.exists());
}

#[test]
fn a_connected_daemon_holds_the_backstop() {
    let helper = helper();
    let mut wanted = request();
    wanted.inactivity_ms = 50;
    let mut instance = create(&helper, Dirs::new(busybox), &wanted);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(instance.sh("alive", "echo alive").text(), "alive\n");
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn version_one() {
    let helper = helper();
    let mut wanted = request();
    wanted.version = 1;
    let mut instance = create(&helper, Dirs::new(busybox), &wanted);
    assert_eq!(instance.file.version, 1);
    assert_eq!(instance.reconnect().0, 1);
    instance.send(&ToSupervisor::SetInactivity { ms: 5000 });
    // No answer to that: the next that comes is of the command.
    assert_eq!(instance.sh("after", "echo after").text(), "after\n");
    assert!(instance.backlog.iter().all(|m| !matches!(m, spawner::protocol::FromSupervisor::Done)));
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn a_daemon_that_talks_nonsense_harms_nothing() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let run = common::dir_fd(&instance.dirs.path("run"));
    for text in [&b"{"[..], b"\xff\xfe", b"{\"op\":\"hello\"}", b"[]", &[b'x'; 60_000]] {
        let stranger = spawner::connect(run.as_fd()).expect("connect");
        spawner::channel::send_text(stranger.as_fd(), text, &[]).expect("send");
        spawner::channel::send_text(instance.connection.as_fd(), text, &[]).expect("send");
    }
    let idle: Vec<_> = (0..50).map(|_| spawner::connect(run.as_fd())).collect();
    assert_eq!(instance.sh("fine", "echo fine").text(), "fine\n");
    drop(idle);
    instance.send(&ToSupervisor::Kill { id: "unknown".to_owned() });
    instance.send(&ToSupervisor::Forget { id: "unknown".to_owned() });
    instance.send(&ToSupervisor::Stop { grace_ms: u64::MAX, why: StopWhy::Stopped, note: None });
    assert_eq!(instance.ended().by, EndedBy::Stopped);
    instance.leaves_nothing();
}

#[test]
fn output_waits_for_a_slow_reader() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let wanted = command("much", &["sh", "-c", "dd if=/dev/zero bs=1M count=4 2>/dev/null"]);
    let mut pipes = instance.start(&wanted);
    instance.started("much").expect("started");
    std::thread::sleep(std::time::Duration::from_millis(100));
    let mut all = Vec::new();
    pipes.stdout.read_to_end(&mut all).expect("read");
    assert_eq!(all.len(), 4 << 20);
    assert_eq!(instance.exited("much").wait_status, 0);
    instance.stop();
    instance.leaves_nothing();
}
