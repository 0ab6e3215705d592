//! What the inside can see and do.

mod common;

use common::{Dirs, Instance, busybox, command, create, helper, request, try_create};
use spawner::protocol::FromSupervisor;
use std::fs;
use std::os::unix::fs::symlink;

fn lines(text: &str) -> Vec<(String, String)> {
    let wanted = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"];
    text.lines()
        .filter_map(|line| line.split_once(":\t"))
        .filter(|(name, _)| wanted.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn expected(eff: &str, bnd: &str) -> Vec<(String, String)> {
    let none = "0000000000000000";
    let all = [
        ("CapInh", none),
        ("CapPrm", eff),
        ("CapEff", eff),
        ("CapBnd", bnd),
        ("CapAmb", none),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ];
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

const DOCKERS: &str = "00000000a80425fb";

#[test]
fn privileges_of_all() {
    let helper = helper();
    let mut wanted = request();
    let script = "cat /proc/self/status > /workspace/main; exec sleep 1000";
    wanted.entrypoint = Some(["sh", "-c", script].map(String::from).to_vec());
    let mut instance = create(&helper, Dirs::new(busybox), &wanted);
    let status = instance.run(&command("self", &["cat", "/proc/self/status"])).text();
    assert_eq!(lines(&status), expected(DOCKERS, DOCKERS));
    assert!(status.contains("Seccomp_filters:\t1\n"), "{status}");
    let init = instance.run(&command("init", &["cat", "/proc/1/status"])).text();
    // Of init alone CAP_KILL is left.
    assert_eq!(lines(&init), expected("0000000000000020", DOCKERS));
    let main = fs::read_to_string(instance.dirs.path("workspace/main")).expect("main wrote it");
    assert_eq!(lines(&main), expected(DOCKERS, DOCKERS));
    if common::is_root() {
        let mut wanted = command("ada", &["cat", "/proc/self/status"]);
        wanted.user = Some("1000:1000".to_owned());
        let ada = instance.run(&wanted).text();
        assert_eq!(lines(&ada), expected("0000000000000000", DOCKERS));
    }
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn init_keeps_its_secrets() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let script = "for f in fd/3 exe mem environ root cwd; do cat /proc/1/$f 2>&1 | head -1; \
        readlink /proc/1/$f; done; echo x > /proc/1/fd/3; kill -9 1; kill -TERM 1; \
        sleep 0.1; echo alive";
    let ran = instance.sh("look", script);
    let text = ran.text();
    assert!(text.ends_with("alive\n"), "{text}");
    for line in text.lines().filter(|line| *line != "alive") {
        assert!(
            line.contains("Permission denied") || line.contains("Operation not permitted"),
            "{line}"
        );
    }
    assert_eq!(instance.stop().main, None);
    instance.leaves_nothing();
}

#[test]
fn calls_that_are_refused() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let script = "mount -t tmpfs x /tmp && echo bad; umount /proc && echo bad; \
        unshare -U true && echo bad; unshare -m true && echo bad; mknod /tmp/d b 8 0 && echo bad; \
        echo 1 > /proc/sys/kernel/panic && echo bad; echo b > /proc/sysrq-trigger && echo bad; \
        mkdir /sys/fs/x && echo bad; mount -o remount,rw /sys && echo bad; \
        nsenter -t 1 -m true && echo bad; true";
    let ran = instance.sh("refused", script);
    assert_eq!((ran.code(), ran.text().as_str()), (0, ""), "{ran:?}");
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn nothing_of_the_machine() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let ran = instance.sh("ps", "ps -o pid | tail -n +2 | wc -l; hostname; ls /sys/class/net");
    // init, the shell, ps, tail and wc at most.
    let text = ran.text();
    let mut rows = text.lines();
    assert!(rows.next().and_then(|n| n.trim().parse().ok()).is_some_and(|n: u32| n <= 5), "{text}");
    assert_eq!(rows.collect::<Vec<_>>(), ["nest", "lo"]);
    let mounts = instance.run(&command("mounts", &["cat", "/proc/self/mountinfo"])).text();
    let host = instance.dirs.root.path().to_str().expect("text").to_owned();
    for line in mounts.lines().filter(|line| !line.contains(" /workspace ")) {
        assert!(!line.contains(&host), "{line}");
    }
    for masked in ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"] {
        if fs::symlink_metadata(masked).is_ok() {
            let ran = instance.sh(
                &masked.replace(['/', '_'], "-"),
                &format!("ls {masked}/ 2>/dev/null; cat {masked} 2>/dev/null | wc -c"),
            );
            assert_eq!(ran.text().trim(), "0", "{masked}");
        }
    }
    let ran = instance.sh("cg", "cat /proc/self/cgroup");
    assert!(!ran.text().contains("spawner-test"), "{}", ran.text());
    let ran = instance.sh("lo", "ping -c 1 -W 5 127.0.0.1 > /dev/null; echo $?; ip route | wc -l");
    assert_eq!(ran.text(), "0\n0\n");
    let dev = instance.run(&command("dev", &["ls", "/dev"])).text();
    assert_eq!(
        dev.split_whitespace().collect::<Vec<_>>(),
        [
            "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout",
            "tty", "urandom", "zero"
        ]
    );
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn a_link_as_mount_point_is_refused() {
    let helper = helper();
    for name in ["proc", "dev", "workspace", "tmp"] {
        let dirs = Dirs::new(|root| {
            busybox(root);
            let _ = fs::remove_dir(root.join(name));
            symlink("/etc", root.join(name)).expect("link");
        });
        let wanted = request();
        let Err((failed, dirs)) = try_create(&helper, dirs, &wanted) else {
            panic!("/{name} -> /etc was accepted");
        };
        let FromSupervisor::CreateFailed { step, entrypoint, .. } = *failed else {
            panic!("{failed:?}");
        };
        assert!(step.contains(&format!("/{name}")) && !entrypoint, "{step}");
        nothing_is_left(&dirs, &wanted);
    }
}

#[test]
fn a_failed_start_says_why_and_leaves_nothing() {
    let helper = helper();
    for (argv, cwd, errno) in [
        (vec!["/no/such"], "/", libc::ENOENT),
        (vec!["nowhere"], "/", libc::ENOENT),
        (vec!["/etc/passwd"], "/", libc::EACCES),
        (vec!["true"], "/no/dir", libc::ENOENT),
        (vec![], "/", 0),
    ] {
        let mut wanted = request();
        wanted.entrypoint = Some(argv.iter().map(|arg| (*arg).to_owned()).collect());
        wanted.cwd = cwd.to_owned();
        let Err((failed, dirs)) = try_create(&helper, Dirs::new(busybox), &wanted) else {
            panic!("{argv:?} was started");
        };
        let FromSupervisor::CreateFailed { entrypoint, errno: found, .. } = *failed else {
            panic!("{failed:?}");
        };
        assert!(entrypoint, "{argv:?}");
        assert_eq!(found, errno, "{argv:?}");
        nothing_is_left(&dirs, &wanted);
    }
    let mut wanted = request();
    wanted.cgroups.limits.push(spawner::protocol::CgroupFile {
        path: "/no/such/limit".to_owned(),
        text: "1".to_owned(),
        optional: false,
    });
    let Err((failed, dirs)) = try_create(&helper, Dirs::new(busybox), &wanted) else {
        panic!("a limit was ignored");
    };
    let FromSupervisor::CreateFailed { step, .. } = *failed else { panic!("{failed:?}") };
    assert!(step.contains("/no/such/limit"), "{step}");
    nothing_is_left(&dirs, &wanted);
}

fn nothing_is_left(dirs: &Dirs, wanted: &spawner::protocol::CreateRequest) {
    let left: Vec<_> = fs::read_dir(dirs.path("run")).expect("list").collect();
    assert!(left.is_empty(), "{left:?}");
    for dir in wanted.cgroups.v1.iter().chain(&wanted.cgroups.v2) {
        assert!(!std::path::Path::new(dir).exists(), "{dir}");
    }
}
