//! The native engine on the real thing: start, run, stop, adopt, release.

use crate::common;

use crate::common::{Bed, command, ended, finish, hear, run, sh, shell, until};
use containers::{
    CommandEvent, CommandOutcome, Ending, Engine, Error, ExecError, InstanceSpec, Main,
};
use std::collections::BTreeMap;
use std::time::Duration;

fn multi<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

#[test]
fn a_command_runs_in_a_started_instance() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        assert!(instance.alive());
        assert_eq!(instance.generation(), 1);
        let told = sh(&instance, "echo out; echo err >&2; exit 7").await;
        assert_eq!((told.text().as_str(), told.code()), ("out\n", 7));
        assert_eq!(told.err, b"err\n");
        let told = run(&instance, command(&["/bin/cat"])).await.unwrap();
        assert!(told.out.is_empty() && told.code() == 0, "no stdin is an end at once");
        let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        let mut cat = command(&["cat"]);
        cat.stdin = Some(bytes.clone());
        assert_eq!(run(&instance, cat).await.unwrap().out, bytes);
        let told = sh(&instance, "echo $PATH; echo $HOME; hostname; pwd; id -u").await;
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        assert_eq!(told.text(), format!("{path}\n/root\nbed\n/\n0\n"));
        finish(&instance).await;
        assert!(!instance.alive());
        bed.assert_clean().await;
    });
}

#[test]
fn the_environment_is_given_as_it_is() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let mut env = command(&["cat", "/proc/self/environ"]);
        env.argv[0] = "/bin/cat".into();
        let value = "a\n\"b\" $(c) {\u{e9}".to_owned();
        env.env = BTreeMap::from([
            ("A;touch /x;B".to_owned(), Some(value.clone())),
            ("EMPTY".to_owned(), Some(String::new())),
            ("HOME".to_owned(), None),
        ]);
        let told = run(&instance, env).await.unwrap();
        let mut told: Vec<_> = told.text().split('\0').map(str::to_owned).collect();
        told.retain(|v| !v.is_empty() && !v.starts_with("PATH="));
        told.sort();
        assert_eq!(told, [format!("A;touch /x;B={value}"), "EMPTY=".to_owned()]);
        assert_ne!(sh(&instance, "ls /x").await.code(), 0);
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

#[test]
fn what_cannot_be_run_is_named() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let exec = |c| run(&instance, c);
        let missing = exec(command(&["nothing-here"])).await.unwrap_err();
        assert!(matches!(&missing, ExecError::NotFound(n) if n == "nothing-here"), "{missing:?}");
        let plain = exec(command(&["/etc/passwd"])).await.unwrap_err();
        assert!(matches!(&plain, ExecError::NotExecutable(n) if n == "/etc/passwd"), "{plain:?}");
        let mut cwd = command(&["true"]);
        cwd.cwd = "/none".into();
        let cwd = exec(cwd).await.unwrap_err();
        assert!(matches!(&cwd, ExecError::CwdNotFound(n) if n == "/none"), "{cwd:?}");
        for user in ["eve", "70000", "0:70000"] {
            let mut as_user = command(&["true"]);
            as_user.user = Some(user.into());
            let error = exec(as_user).await.unwrap_err();
            assert!(matches!(&error, ExecError::UserNotFound(n) if n == user), "{error:?}");
        }
        let huge = "x".repeat(100 * 1024);
        let argv: Vec<&str> = std::iter::once("true").chain((0..40).map(|_| &*huge)).collect();
        let large = exec(command(&argv)).await.unwrap_err();
        assert!(matches!(large, ExecError::ArgumentsTooLarge), "{large:?}");
        let mut twice = command(&["sleep", "30"]);
        twice.id = "twice".into();
        let first = instance.exec(twice.clone()).await.unwrap();
        assert!(matches!(instance.exec(twice).await, Err(ExecError::Failed(_))));
        drop(first);
        let mut ada = shell("id -u; id -g");
        ada.user = Some("ada".into());
        assert_eq!(exec(ada).await.unwrap().text(), "1000\n1000\n");
        assert_eq!(sh(&instance, "echo fine").await.text(), "fine\n");
        finish(&instance).await;
        let gone = instance.exec(command(&["true"])).await;
        assert!(matches!(gone, Err(ExecError::InstanceGone)));
        bed.assert_clean().await;
    });
}

#[test]
fn main_processes_tell_how_they_ended() {
    multi(async {
        let bed = Bed::with_box();
        for (n, script, main) in [
            (1, "exit 0", Main::Code(0)),
            (2, "echo hello; exit 7", Main::Code(7)),
            (3, "kill -9 $$", Main::Signal(9)),
            (4, "kill -15 $$", Main::Signal(15)),
        ] {
            let instance = bed.main(n, script).await;
            let ending = ended(&instance).await;
            let Ending::Main { main: how, oom: false, .. } = ending else {
                panic!("{script}: {ending:?}")
            };
            assert_eq!(how, main, "{script}");
            instance.release().await;
        }
        let logs = bed.engine.logs(&common::object(2)).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&logs), "hello\n");
        bed.engine.purge(&common::object(2)).await.unwrap();
        assert!(bed.engine.logs(&common::object(2)).await.unwrap().is_empty());
        bed.assert_clean().await;
    });
}

#[test]
fn the_log_keeps_its_last_mebibyte() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.main(1, "seq 1 400000; echo the end").await;
        ended(&instance).await;
        instance.release().await;
        let logs = bed.engine.logs(&common::object(1)).await.unwrap();
        assert!(logs.len() <= 1 << 20 && logs.len() > 500_000, "{}", logs.len());
        let text = String::from_utf8(logs).unwrap();
        assert!(text.ends_with("399999\n400000\nthe end\n"));
        bed.assert_clean().await;
    });
}

#[test]
fn entrypoints_that_cannot_run_leave_nothing() {
    multi(async {
        let bed = Bed::with_box();
        for argv in [vec!["/no/such"], vec!["/etc/passwd"]] {
            let entrypoint = Some(argv.iter().map(|a| (*a).to_owned()).collect());
            let spec = InstanceSpec { entrypoint, ..bed.spec(1) };
            let error = bed.engine.start(spec).await.err().unwrap();
            assert!(
                matches!(&error, Error::Entrypoint(text) if text.contains(argv[0])),
                "{error:?}"
            );
        }
        let spec = InstanceSpec { image: "none".into(), ..bed.spec(1) };
        let error = bed.engine.start(spec).await.err().unwrap();
        assert!(matches!(error, Error::ImageNotFound(n) if n == "none"));
        let spec = InstanceSpec { enable_internet: true, ..bed.spec(1) };
        assert!(matches!(bed.engine.start(spec).await.err().unwrap(), Error::Unsupported(_)));
        bed.assert_clean().await;
        finish(&bed.start(1).await).await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_stop_asks_first_where_there_is_grace() {
    multi(async {
        let bed = Bed::with_box();
        let script = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.1; done";
        let instance = bed.main(1, script).await;
        // Before that the signal would find no trap.
        let log = format!("sandboxes/{}/logs/log", common::object(1));
        let log = bed.dir.path().join(log);
        common::until("it listens", || std::fs::read(&log).is_ok_and(|l| l == b"ready\n")).await;
        instance.stop(Duration::from_secs(30), "the note").await.unwrap();
        let ending = ended(&instance).await;
        assert!(
            matches!(&ending, Ending::Stopped { note: Some(n), .. } if n == "the note"),
            "{ending:?}"
        );
        let logs = bed.engine.logs(&common::object(1)).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&logs), "ready\nasked\n");
        instance.stop(Duration::ZERO, "later").await.unwrap();
        instance.release().await;
        // One that does not listen.
        let instance = bed.main(2, "trap '' TERM; while :; do sleep 0.1; done").await;
        instance.stop(Duration::from_millis(300), "").await.unwrap();
        instance.release().await;
        bed.assert_clean().await;
    });
}

#[test]
fn the_workspace_outlives_instances_and_the_root_does_not() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        sh(&instance, "echo kept > /workspace/a; echo lost > /b; chmod 4755 /workspace/a").await;
        finish(&instance).await;
        let dir = bed.engine.workspace(&common::object(1)).await.unwrap();
        assert_eq!(std::fs::read_to_string(dir.join("a")).unwrap(), "kept\n");
        std::fs::write(dir.join("from-outside"), "seen").unwrap();
        std::fs::create_dir(dir.join("d")).unwrap();
        std::os::unix::fs::symlink("/usr", dir.join("d/usr")).unwrap();
        let measured = bed.engine.measure_workspace(&common::object(1)).await.unwrap();
        assert_eq!(measured, (4, 9));
        let instance = bed.start(1).await;
        let told = sh(&instance, "cat /workspace/a /workspace/from-outside; ls /b").await;
        assert_eq!(told.text(), "kept\nseen");
        assert_ne!(told.code(), 0);
        // Owner 0 inside is owner 0 on the disk: ids are the same for every range.
        assert_eq!(sh(&instance, "stat -c %u /workspace/a").await.text(), "0\n");
        finish(&instance).await;
        bed.engine.purge(&common::object(1)).await.unwrap();
        assert!(!dir.exists());
        // Looking does not make it again.
        assert_eq!(bed.engine.workspace(&common::object(1)).await.unwrap(), dir);
        assert_eq!(bed.engine.measure_workspace(&common::object(1)).await.unwrap(), (0, 0));
        assert!(!dir.parent().unwrap().exists());
        bed.assert_clean().await;
    });
}

#[test]
fn a_dropped_command_dies_with_its_tree() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let script = "setsid sleep 1111 & (sleep 1111 &) ; echo up; sleep 1111";
        let mut running = instance.exec(shell(script)).await.unwrap();
        assert!(matches!(running.events.recv().await, Some(CommandEvent::Stdout(_))));
        let id = instance.commands().await[0].id.clone();
        drop(running);
        let end = instance.wait_command(&id).await;
        assert!(
            matches!(end.outcome, CommandOutcome::Exited { status: Main::Signal(9), .. }),
            "{end:?}"
        );
        instance.forget_command(&id).await;
        let mut left = String::new();
        for _ in 0..100 {
            left = sh(&instance, "ps | grep 'sleep 111[1]'").await.text();
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(left, "");
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_background_child_does_not_hold_the_answer() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let told = sh(&instance, "sleep 2222 & echo done").await;
        assert_eq!((told.text().as_str(), told.code()), ("done\n", 0));
        // It lives on: the end was seen, so the drop killed nothing.
        assert_eq!(sh(&instance, "ps | grep -c 'sleep 222[2]'").await.text(), "1\n");
        // One that never stops talking does not hold it either.
        let told = sh(&instance, "yes & echo first >&2; exit 5").await;
        assert_eq!((told.code(), &told.err[..]), (5, &b"first\n"[..]));
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_time_limit_kills_the_tree() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let mut late = shell("trap '' TERM; setsid sleep 3333 & sleep 3333");
        late.timeout = Some(Duration::from_millis(200));
        let told = run(&instance, late).await.unwrap();
        assert_eq!(told.code(), 137);
        assert!(matches!(
            told.end.unwrap().outcome,
            CommandOutcome::Exited { timed_out: true, oom_killed: false, .. }
        ));
        assert_eq!(sh(&instance, "ps | grep 'sleep 333[3]'").await.text(), "");
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

#[test]
fn output_is_whole_and_slow_readers_slow_it_down() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let told =
            sh(&instance, "head -c 50000000 /dev/zero >&2; head -c 100000000 /dev/zero").await;
        assert_eq!((told.err.len(), told.out.len()), (50_000_000, 100_000_000));
        let mut both = shell("for i in $(seq 1 500); do echo $i; echo $i >&2; done");
        both.combined = true;
        let told = run(&instance, both).await.unwrap();
        let numbers: Vec<_> = (1..=500).flat_map(|i| [i, i]).map(|i| i.to_string()).collect();
        assert_eq!(told.text().lines().collect::<Vec<_>>(), numbers);
        assert!(told.err.is_empty());
        // Not read for a while: nothing is lost.
        let running = instance.exec(shell("seq 1 300000")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let told = hear(running).await;
        assert_eq!(told.code(), 0);
        let lines = told.text().lines().count();
        assert!(told.text().ends_with("299999\n300000\n"), "{lines} lines, {:?}", told.end);
        assert_eq!(told.text().lines().count(), 300_000);
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

#[test]
fn fifty_start_at_once_and_five_hundred_commands_keep_their_codes() {
    multi(async {
        let bed = Bed::with_box();
        let mut starts = tokio::task::JoinSet::new();
        for n in 1..=50 {
            let (engine, spec) = (bed.engine.clone(), bed.spec(n));
            starts.spawn(async move { engine.start(spec).await.unwrap() });
        }
        let instances = starts.join_all().await;
        let mut pids: Vec<_> = instances.iter().map(|i| i.identity().pid).collect();
        pids.sort_unstable();
        pids.dedup();
        assert_eq!(pids.len(), 50);
        let mut runs = tokio::task::JoinSet::new();
        for n in 0..500_usize {
            let instance = instances[n % 10].clone();
            runs.spawn(async move {
                let told = sh(&instance, &format!("echo {n}; exit {}", n % 251)).await;
                assert_eq!(told.text(), format!("{n}\n"));
                assert_eq!(told.code(), i32::try_from(n % 251).unwrap());
            });
        }
        runs.join_all().await;
        let mut stops = tokio::task::JoinSet::new();
        for instance in instances {
            stops.spawn(async move { finish(&instance).await });
        }
        stops.join_all().await;
        bed.assert_clean().await;
    });
}

#[test]
fn two_starts_of_one_object_are_one() {
    multi(async {
        let bed = Bed::with_box();
        let (a, b) = tokio::join!(bed.engine.start(bed.spec(1)), bed.engine.start(bed.spec(1)));
        assert!(a.is_ok() != b.is_ok());
        let instance = a.or(b).unwrap();
        assert!(bed.engine.start(bed.spec(1)).await.is_err());
        assert_eq!(sh(&instance, "echo one").await.text(), "one\n");
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

#[test]
fn a_start_that_nobody_waits_for_leaves_nothing() {
    multi(async {
        let bed = Bed::with_box();
        for us in [0, 200, 1000, 2000, 3000, 5000] {
            let start = bed.engine.start(bed.spec(1));
            if let Ok(instance) = tokio::time::timeout(Duration::from_micros(us), start).await {
                finish(&instance.unwrap()).await;
            }
            bed.assert_gone().await;
        }
    });
}

impl Bed {
    /// Waits for the stop of what nobody waited for. It may only be about to begin: nothing must
    /// be there at many looks in a row.
    async fn assert_gone(&self) {
        let gone = async {
            let mut looks = 0;
            while looks < 15 {
                let run = std::fs::read_dir(self.dir.path().join("run")).unwrap().count();
                looks = if run == 0 { looks + 1 } else { 0 };
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(10), gone).await.is_err() {
            panic!("something stays");
        }
        self.assert_clean().await;
    }
}

#[test]
fn an_image_in_use_stays() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let images = bed.engine.images();
        assert!(matches!(images.remove("box"), Err(Error::ImageInUse(n)) if n == "box"));
        finish(&instance).await;
        images.remove("box").unwrap();
        assert!(!bed.engine.image_exists("box").await);
        assert!(bed.engine.image_exists("host").await);
        bed.assert_clean().await;
    });
}

#[test]
fn a_path_of_two_hundred_characters_is_fine() {
    multi(async {
        let short = tempfile::tempdir().unwrap();
        let long = short.path().join("d".repeat(200)).join("e".repeat(200));
        std::fs::create_dir_all(&long).unwrap();
        let engine = containers::NativeEngine::open(common::options(&long)).unwrap();
        common::import_box(&engine);
        let bed = Bed::new();
        let instance = engine.start(bed.spec(1)).await.unwrap();
        assert_eq!(sh(&instance, "echo deep").await.text(), "deep\n");
        finish(&instance).await;
        until("the run directory goes", || {
            std::fs::read_dir(long.join("run")).unwrap().count() == 0
        })
        .await;
        containers::remove_cgroup_parents(&long).unwrap();
        let node = std::fs::read_to_string(long.join("node-id")).unwrap();
        let name = format!("sandkeep-{}", node.trim());
        let groups = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        let left: Vec<_> = groups.map(|e| e.path().join(&name)).filter(|p| p.exists()).collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn deep_and_odd_trees_are_counted_and_deleted() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        let script = r#"
            cd /workspace
            mkdir -- -x 'new
line' "$(printf '\377\376')"; touch -- -x/-rf
            mkdir locked && touch locked/f && chmod 0 locked
            for i in $(seq 1 100); do mkdir w$i; done
        "#;
        let told = sh(&instance, script).await;
        assert_eq!(told.code(), 0, "{told:?}");
        // Deeper than a shell can go.
        let dir = bed.engine.workspace(&common::object(1)).await.unwrap();
        let mut here = std::fs::File::open(dir).unwrap();
        for _ in 0..600 {
            let mode = rustix::fs::Mode::from_raw_mode(0o755);
            rustix::fs::mkdirat(&here, "d", mode).unwrap();
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
            here = rustix::fs::openat(&here, "d", flags, mode).unwrap().into();
        }
        finish(&instance).await;
        bed.engine.purge(&common::object(1)).await.unwrap();
        bed.assert_clean().await;
    });
}

#[test]
fn usage_is_told() {
    multi(async {
        let bed = Bed::with_box();
        let instance = bed.start(1).await;
        sh(&instance, "for i in $(seq 1 20000); do :; done").await;
        let usage = instance.usage().await.unwrap();
        assert!(usage.memory_bytes > 0 && usage.pids >= 1 && usage.cpu_us > 0, "{usage:?}");
        finish(&instance).await;
        bed.assert_clean().await;
    });
}
