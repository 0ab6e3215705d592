//! Connections to supervisors that break, and supervisors that stand still.

use crate::common::{self, Bed, ended, finish, object, sh, until};
use containers::{CommandEvent, CommandOutcome, Ending, Engine, ExecError, Instance, Main};
use spawner::protocol::{FromSupervisor, InstanceFile, ToSupervisor, VERSION};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const STOP: i32 = 19;
const CONT: i32 = 18;

fn multi<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

fn run_dir(dir: &Path, n: u64) -> PathBuf {
    dir.join("run").join(object(n).to_string())
}

fn instance_file(dir: &Path, n: u64) -> InstanceFile {
    serde_json::from_slice(&std::fs::read(run_dir(dir, n).join("instance")).unwrap()).unwrap()
}

fn supervisor(dir: &Path, n: u64) -> OwnedFd {
    spawner::pidfd_open(instance_file(dir, n).supervisor_pid).unwrap()
}

/// Status files of commands, also such as are not written yet.
fn status_files(dir: &Path, n: u64) -> Vec<String> {
    let names = std::fs::read_dir(run_dir(dir, n)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('x') || name.starts_with(".x")).collect()
}

/// Takes the supervisor's connection away from its daemon, and waits until the daemon has taken
/// it back.
fn steal(dir: &Path, n: u64) {
    let run = std::fs::File::open(run_dir(dir, n)).unwrap();
    let socket = spawner::connect(run.as_fd()).unwrap();
    let hello = ToSupervisor::Hello { version: VERSION };
    spawner::channel::send(socket.as_fd(), &hello, &[]).unwrap();
    while let Ok(Some((_, _))) = spawner::channel::recv::<FromSupervisor>(socket.as_fd()) {}
}

#[test]
fn connections_may_break_again_and_again() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let waits = "while [ ! -e /workspace/go ]; do sleep 0.1; done; exit 5";
        let running = instance.exec(common::shell(waits)).await.unwrap();
        let id = instance.commands().await[0].id.clone();
        for round in 0..6 {
            let dir = bed.dir.path().to_owned();
            tokio::task::spawn_blocking(move || steal(&dir, 1)).await.unwrap();
            assert!(instance.alive(), "round {round}");
        }
        // Just while the connection is made anew a command may be refused, to be tried again.
        let told = loop {
            match common::run(&instance, common::shell("echo on")).await {
                Err(ExecError::Busy(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
                told => break told.unwrap(),
            }
        };
        assert_eq!(told.text(), "on\n");
        sh(&instance, "touch /workspace/go").await;
        let end = instance.wait_command(&id).await;
        let code =
            CommandOutcome::Exited { status: Main::Code(5), timed_out: false, oom_killed: false };
        assert_eq!(end.outcome, code);
        drop(running);
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_start_that_its_caller_gives_up_leaves_nothing() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let supervisor = supervisor(bed.dir.path(), 1);
        spawner::signal(supervisor.as_fd(), STOP).unwrap();
        for _ in 0..3 {
            let exec = instance.exec(common::shell("sleep 1000"));
            let given_up = tokio::time::timeout(Duration::from_millis(200), exec).await;
            assert!(given_up.is_err(), "a supervisor that stands still starts nothing");
        }
        spawner::signal(supervisor.as_fd(), CONT).unwrap();
        // Answered after all that was asked before.
        assert_eq!(sh(&instance, "echo on").await.text(), "on\n");
        for info in instance.commands().await {
            instance.forget_command(&info.id).await;
        }
        until("all are forgotten", || status_files(bed.dir.path(), 1).is_empty()).await;
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_command_that_is_forgotten_while_it_runs_can_still_be_killed() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let script = "echo up; while :; do touch /workspace/alive; usleep 50000; done";
        let mut running = instance.exec(common::shell(script)).await.unwrap();
        assert!(matches!(running.events.recv().await, Some(CommandEvent::Stdout(_))));
        let id = instance.commands().await[0].id.clone();
        instance.forget_command(&id).await;
        drop(running);
        until("it is dead and forgotten", || status_files(bed.dir.path(), 1).is_empty()).await;
        sh(&instance, "rm -f /workspace/alive").await;
        let told = sh(&instance, "sleep 0.5; ls /workspace").await;
        assert_eq!(told.text(), "");
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_supervisor_that_does_not_greet_is_ended() {
    multi(async {
        let mut bed = Bed::with_box();
        let instance: Arc<dyn Instance> = bed.start(1).await;
        let file = instance_file(bed.dir.path(), 1);
        let supervisor = supervisor(bed.dir.path(), 1);
        spawner::signal(supervisor.as_fd(), STOP).unwrap();
        bed.reopen();
        let adopted = bed.engine.adopt().await.unwrap();
        assert_eq!(adopted.len(), 1);
        let ending = ended(&adopted[0].instance).await;
        assert!(matches!(ending, Ending::Unknown { .. }), "{ending:?}");
        assert!(!spawner::alive(supervisor.as_fd()), "the supervisor must not go on");
        assert!(!adopted[0].instance.alive() && !instance.alive());
        for dir in file.cgroups.v1.iter().chain(&file.cgroups.v2) {
            assert!(!Path::new(dir).exists(), "{dir}");
        }
        adopted[0].instance.release().await;
        bed.assert_clean().await;
    });
}
