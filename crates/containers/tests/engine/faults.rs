//! Kills of every part: nothing is invented, nothing is left over.

use crate::common;

use crate::common::{Bed, ended, finish, object, sh, until};
use containers::{
    Adopted, CommandOutcome, Ending, Engine, Instance, InstanceSpec, Main, NativeEngine,
};
use rustix::process::{Pid, Signal};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::Duration;

fn multi<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

fn kill(pid: i32) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

fn instance_file(dir: &Path, n: u64) -> serde_json::Value {
    let path = dir.join("run").join(object(n).to_string()).join("instance");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn supervisor(dir: &Path, n: u64) -> i32 {
    let pid = instance_file(dir, n)["supervisor_pid"].as_i64().unwrap();
    i32::try_from(pid).unwrap()
}

/// A daemon in a process of its own.
struct Daemon {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Daemon {
    fn spawn(dir: &Path) -> Self {
        let mut child = std::process::Command::new(common::helper())
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut daemon = Self { child, to, from: BufReader::new(from) };
        assert!(daemon.line().starts_with("ready"));
        daemon
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line
    }

    fn ask(&mut self, request: serde_json::Value) -> String {
        writeln!(self.to, "{request}").unwrap();
        self.line()
    }

    fn start(&mut self, n: u64, script: Option<&str>) {
        let entrypoint = script.map(|s| vec!["/bin/sh", "-c", s]);
        let told = self.ask(serde_json::json!({
            "op": "start", "object": object(n), "image": "box", "entrypoint": entrypoint,
            "inactivity_ms": 300_000,
        }));
        assert!(told.starts_with("started"), "{told}");
    }

    fn exec(&mut self, n: u64, id: &str, script: &str) {
        let argv = ["/bin/sh", "-c", script];
        let told = self.ask(serde_json::json!({
            "op": "exec", "object": object(n), "id": id, "argv": argv,
        }));
        assert!(told.starts_with("started"), "{told}");
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A bed whose own engine is closed, so that a daemon may have the directory.
async fn closed() -> Bed {
    let bed = Bed::with_box();
    bed.engine.images().info("box").unwrap();
    bed
}

fn find(adopted: &[Adopted], n: u64) -> Arc<dyn Instance> {
    adopted.iter().find(|a| a.object == object(n)).expect("adopted").instance.clone()
}

#[test]
fn a_killed_daemon_loses_nothing() {
    multi(async {
        let mut bed = closed().await;
        let mut daemon = Daemon::spawn(bed.dir.path());
        daemon.start(1, None);
        daemon.start(2, Some("sleep 0.5; exit 9"));
        daemon.start(3, Some("exit 4"));
        daemon.exec(1, "short", "sleep 0.5; exit 33");
        daemon.exec(1, "long", "sleep 3; exit 44");
        daemon.exec(1, "loud", "head -c 10000000 /dev/zero; exit 55");
        daemon.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;

        bed.reopen();
        let adopted = bed.engine.adopt().await.unwrap();
        assert_eq!(adopted.len(), 3);
        let one = find(&adopted, 1);
        assert!(one.alive());
        let mut commands = one.commands().await;
        commands.sort_by(|a, b| a.id.cmp(&b.id));
        let ids: Vec<_> = commands.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, ["long", "loud", "short"]);
        assert_eq!(commands[0].argv[0], "/bin/sh");
        for (id, code) in [("short", 33), ("long", 44), ("loud", 55)] {
            let end = tokio::time::timeout(common::LONG, one.wait_command(id)).await.unwrap();
            let CommandOutcome::Exited { status, timed_out: false, oom_killed: false } =
                end.outcome
            else {
                panic!("{id}: {end:?}")
            };
            assert_eq!(status, Main::Code(code), "{id}");
            one.forget_command(id).await;
        }
        assert!(one.commands().await.is_empty());
        assert_eq!(sh(&one, "echo adopted").await.text(), "adopted\n");
        for (n, code) in [(2, 9), (3, 4)] {
            let instance = find(&adopted, n);
            let ending = ended(&instance).await;
            assert!(
                matches!(ending, Ending::Main { main: Main::Code(c), oom: false, .. } if c == code),
                "{ending:?}"
            );
            instance.release().await;
        }
        finish(&one).await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_stop_keeps_its_note_over_the_daemons_death() {
    multi(async {
        let mut bed = closed().await;
        let mut daemon = Daemon::spawn(bed.dir.path());
        daemon.start(1, Some("trap 'sleep 0.5; exit 0' TERM; while :; do sleep 0.1; done"));
        let stop = serde_json::json!({"op": "stop", "object": object(1), "note": "why"});
        assert!(daemon.ask(stop).starts_with("stopping"));
        daemon.kill();
        bed.reopen();
        let adopted = bed.engine.adopt().await.unwrap();
        let instance = find(&adopted, 1);
        let ending = ended(&instance).await;
        assert!(
            matches!(&ending, Ending::Stopped { note: Some(n), .. } if n == "why"),
            "{ending:?}"
        );
        instance.release().await;
        bed.assert_clean().await;
    });
}

#[test]
fn an_engine_that_is_dropped_lets_go() {
    multi(async {
        let mut bed = Bed::with_box();
        let old = bed.start(1).await;
        let running = old.exec(common::shell("sleep 1; exit 6")).await.unwrap();
        let id = old.commands().await[0].id.clone();
        bed.reopen();
        let adopted = bed.engine.adopt().await.unwrap();
        let new = find(&adopted, 1);
        assert_eq!(new.identity(), old.identity());
        let end = new.wait_command(&id).await;
        assert!(
            matches!(end.outcome, CommandOutcome::Exited { status: Main::Code(6), .. }),
            "{end:?}"
        );
        drop(running);
        finish(&new).await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_killed_helper_is_replaced() {
    multi(async {
        let bed = Bed::with_box();
        let one = bed.start(1).await;
        let first = bed.engine.helper_pid().unwrap();
        kill(first);
        let running = one.exec(common::shell("sleep 0.3; exit 3")).await.unwrap();
        let two = bed.start(2).await;
        assert_ne!(bed.engine.helper_pid().unwrap(), first);
        assert_eq!(common::hear(running).await.code(), 3);
        // Killed again and again while starts go on: each start works or fails cleanly.
        let engine = bed.engine.clone();
        let killer = tokio::spawn(async move {
            for _ in 0..20 {
                if let Some(pid) = engine.helper_pid().and_then(Pid::from_raw) {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                }
                tokio::time::sleep(Duration::from_millis(7)).await;
            }
        });
        for n in 10..30 {
            if let Ok(instance) = bed.engine.start(bed.spec(n)).await {
                assert_eq!(sh(&instance, "echo up").await.text(), "up\n");
                finish(&instance).await;
            }
        }
        killer.await.unwrap();
        finish(&one).await;
        finish(&two).await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_killed_supervisor_takes_its_instance_with_it_and_says_unknown() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let running = instance.exec(common::shell("sleep 1000")).await.unwrap();
        kill(supervisor(bed.dir.path(), 1));
        let told = common::hear(running).await;
        assert_eq!(told.end.unwrap().outcome, CommandOutcome::Unknown);
        let ending = ended(&instance).await;
        assert!(matches!(ending, Ending::Unknown { .. }), "{ending:?}");
        assert!(!instance.alive());
        instance.release().await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_killed_supervisor_does_not_hide_how_main_ended() {
    multi(async {
        let mut bed = closed().await;
        let mut daemon = Daemon::spawn(bed.dir.path());
        daemon.start(1, Some("sleep 0.3; exit 21"));
        daemon.start(2, Some("sleep 1000"));
        let (one, two) = (supervisor(bed.dir.path(), 1), supervisor(bed.dir.path(), 2));
        // The daemon first: it would end what lost its supervisor before main has ended.
        daemon.kill();
        kill(one);
        kill(two);
        let run = bed.dir.path().join("run").join(object(1).to_string());
        until("init told", || std::fs::read(run.join("status")).is_ok_and(|s| s.len() >= 16)).await;
        bed.reopen();
        let adopted = bed.engine.adopt().await.unwrap();
        let ending = ended(&find(&adopted, 1)).await;
        assert!(
            matches!(ending, Ending::Main { main: Main::Code(21), .. } | Ending::Unknown { .. }),
            "{ending:?}"
        );
        let ending = ended(&find(&adopted, 2)).await;
        assert!(matches!(ending, Ending::Unknown { .. }), "{ending:?}");
        for n in [1, 2] {
            find(&adopted, n).release().await;
        }
        bed.assert_clean().await;
    });
}

#[test]
fn an_init_killed_from_outside_is_a_signal() {
    multi(async {
        let bed = Bed::with_box();
        for (n, script) in [(1, None), (2, Some("sleep 1000"))] {
            let instance = match script {
                None => bed.start(n).await,
                Some(script) => bed.main(n, script).await,
            };
            kill(instance.identity().pid);
            let ending = ended(&instance).await;
            assert!(
                matches!(ending, Ending::Main { main: Main::Signal(9), oom: false, .. }),
                "{ending:?}"
            );
            instance.release().await;
        }
        bed.assert_clean().await;
    });
}

#[test]
fn random_kills_of_the_daemon_leave_nothing_behind() {
    multi(async {
        let mut bed = closed().await;
        for round in 0..12_u64 {
            let mut daemon = Daemon::spawn(bed.dir.path());
            for n in 1..=3 {
                let script = format!("sleep 0.0{n}; exit {n}");
                let entrypoint = ["/bin/sh", "-c", &script];
                writeln!(
                    daemon.to,
                    "{}",
                    serde_json::json!({
                        "op": "start", "object": object(round * 10 + n), "image": "box",
                        "entrypoint": entrypoint, "inactivity_ms": 300_000,
                    })
                )
                .unwrap();
            }
            tokio::time::sleep(Duration::from_micros(round * 1500)).await;
            daemon.kill();
            bed.reopen();
            for Adopted { object, instance } in bed.engine.adopt().await.unwrap() {
                let code = i32::from_str_radix(&object.to_string()[60..], 16).unwrap();
                let code = code - i32::try_from(round * 10).unwrap();
                let ending = ended(&instance).await;
                assert!(
                    matches!(ending, Ending::Main { main: Main::Code(c), .. } if c == code),
                    "round {round}: {object:?} {ending:?}"
                );
                instance.release().await;
            }
            bed.assert_clean().await;
        }
    });
}

#[test]
fn a_reboot_is_seen() {
    multi(async {
        let mut bed = Bed::with_box();
        let instance = bed.start(1).await;
        finish_without_release(&instance).await;
        let run = bed.dir.path().join("run").join(object(1).to_string());
        // As after a power cut: no exit file, an instance of another boot.
        std::fs::remove_file(run.join("exit")).unwrap();
        let mut file = instance_file(bed.dir.path(), 1);
        file["boot_id"] = "00000000-0000-0000-0000-000000000000".into();
        // A pid that lives and is somebody else's now.
        file["pid"] = std::process::id().into();
        std::fs::write(run.join("instance"), file.to_string()).unwrap();
        std::fs::create_dir(bed.dir.path().join("run/not-ours")).unwrap();
        bed.reopen();
        let adopted = bed.engine.adopt().await.unwrap();
        assert_eq!(adopted.len(), 1);
        let ending = ended(&adopted[0].instance).await;
        assert!(matches!(ending, Ending::NodeLost { .. }), "{ending:?}");
        adopted[0].instance.release().await;
        bed.assert_clean().await;
    });
}

async fn finish_without_release(instance: &Arc<dyn Instance>) {
    instance.stop(Duration::ZERO, "").await.unwrap();
    ended(instance).await;
}

#[test]
fn a_reused_pid_is_not_taken_for_the_instance() {
    multi(async {
        let mut bed = Bed::with_box();
        let instance = bed.start(1).await;
        finish_without_release(&instance).await;
        let run = bed.dir.path().join("run").join(object(1).to_string());
        std::fs::remove_file(run.join("exit")).unwrap();
        let mut file = instance_file(bed.dir.path(), 1);
        file["pid"] = std::process::id().into();
        std::fs::write(run.join("instance"), file.to_string()).unwrap();
        bed.reopen();
        // This very process has the pid: it must survive.
        let adopted = bed.engine.adopt().await.unwrap();
        let ending = ended(&adopted[0].instance).await;
        assert!(matches!(ending, Ending::Unknown { .. }), "{ending:?}");
        adopted[0].instance.release().await;
        bed.assert_clean().await;
    });
}

#[test]
fn the_backstop_is_set_and_held() {
    multi(async {
        let mut bed = closed().await;
        let mut daemon = Daemon::spawn(bed.dir.path());
        for (n, ms) in [(1, 400), (2, 300_000)] {
            let told = daemon.ask(serde_json::json!({
                "op": "start", "object": object(n), "image": "box", "entrypoint": null,
                "inactivity_ms": ms,
            }));
            assert!(told.starts_with("started"), "{told}");
        }
        // While a daemon is connected it does not run.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let run = bed.dir.path().join("run").join(object(1).to_string());
        assert!(!run.join("exit").exists());
        daemon.kill();
        until("the backstop", || run.join("exit").exists()).await;
        bed.reopen();
        let adopted = bed.engine.adopt().await.unwrap();
        let ending = ended(&find(&adopted, 1)).await;
        assert!(matches!(ending, Ending::Inactivity { .. }), "{ending:?}");
        find(&adopted, 1).release().await;
        let two = find(&adopted, 2);
        two.set_inactivity_timeout(Duration::from_secs(600)).await.unwrap();
        finish(&two).await;
        bed.assert_clean().await;
    });
}

#[test]
fn two_starts_with_a_dead_supervisor_between_do_not_meet() {
    multi(async {
        let bed = Bed::with_box();
        let old = bed.start(1).await;
        kill(supervisor(bed.dir.path(), 1));
        ended(&old).await;
        let spec = InstanceSpec { generation: 2, ..bed.spec(1) };
        let new = bed.engine.start(spec).await.unwrap();
        // A late release of the older one must not touch the newer one.
        old.release().await;
        assert_eq!(sh(&new, "echo there").await.text(), "there\n");
        assert!(bed.dir.path().join("run").join(object(1).to_string()).exists());
        finish(&new).await;
        bed.assert_clean().await;
    });
}

#[test]
fn one_engine_at_a_time_shares_its_images() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let other = NativeEngine::open(common::options(bed.dir.path())).unwrap();
        let removed = other.images().remove("box");
        assert!(matches!(removed, Err(containers::Error::ImageInUse(_))), "{removed:?}");
        drop(other);
        finish(&instance).await;
        bed.assert_clean().await;
    });
}
