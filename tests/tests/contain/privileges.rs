//! What processes inside are allowed: the same for the main process and for every command.

use crate::common::*;
use e2e::{Server, eventually};
use serde_json::json;

/// The 14 capabilities that Docker users know.
const USUAL: &str = "00000000a80425fb";
const NONE: &str = "0000000000000000";

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {status}")).trim()
}

#[track_caller]
fn check(status: &str, effective: &str) {
    assert_eq!(field(status, "CapInh"), NONE, "{status}");
    assert_eq!(field(status, "CapPrm"), effective, "{status}");
    assert_eq!(field(status, "CapEff"), effective, "{status}");
    assert_eq!(field(status, "CapBnd"), USUAL, "{status}");
    assert_eq!(field(status, "CapAmb"), NONE, "{status}");
    assert_eq!(field(status, "NoNewPrivs"), "1", "{status}");
    assert_eq!(field(status, "Seccomp"), "2", "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_main_and_of_commands() {
    let server = Server::start().await;
    let list = r#"opendir D, "/proc/self/fd"; print join " ", sort grep { !/^\./ } readdir D"#;
    let script = format!(
        "perl -e '{list}' > /workspace/fds; cat /proc/self/status > /workspace/status; \
        touch /workspace/done; exec sleep 1000"
    );
    let settings = json!({ "entrypoint": ["sh", "-c", script] });
    server.put("/v1/sandboxes/a", settings).await.expect(201);
    let status = sh(&server, "a", "cat /proc/self/status").await;
    check(&status, USUAL);
    eventually("main has told", LIMIT, || async {
        (sh(&server, "a", "ls /workspace").await.contains("done")).then_some(())
    })
    .await;
    check(&sh(&server, "a", "cat /workspace/status").await, USUAL);
    check(&sh_as(&server, "a", "1000:1000", "cat /proc/self/status").await, NONE);
    // Init is no way to more.
    let init = sh(&server, "a", "cat /proc/1/status").await;
    for name in ["NoNewPrivs", "CapBnd", "Seccomp"] {
        assert_eq!(field(&init, name), field(&status, name), "{init}");
    }
    // Descriptors 0, 1, 2 and the directory that is just read.
    assert_eq!(perl(&server, "a", list).await["stdout"], "0 1 2 3");
    assert_eq!(sh(&server, "a", "cat /workspace/fds").await, "0 1 2 3");
    let user = format!("exec perl -e '{list}'");
    assert_eq!(sh_as(&server, "a", "1000", &user).await, "0 1 2 3");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_the_instances_own() {
    let server = Server::start().await;
    let map = sh(&server, "note-1", "cat /proc/self/uid_map /proc/self/gid_map").await;
    for line in map.lines() {
        let mut numbers = line.split_whitespace().map(|n| n.parse::<u64>().expect("a number"));
        let (inside, outside) = (numbers.next(), numbers.next());
        assert_eq!(inside, Some(0), "{map}");
        assert!(outside.is_some_and(|base| base >= 65_536), "root is a user of the machine: {map}");
    }
    assert_eq!(sh(&server, "note-1", "hostname; id -u").await, "note-1\n0");
    let script =
        "touch /workspace/mine; mkdir -m 777 /workspace/all; stat -c %u:%g /workspace/mine";
    assert_eq!(sh(&server, "note-1", script).await, "0:0");
    sh_as(&server, "note-1", "1000:1001", "touch /workspace/all/ada").await;
    server.post("/v1/sandboxes/note-1/stop", json!(null)).await.expect(204);
    // The next instance has another range, and sees the same.
    let stat = "stat -c %u:%g /workspace/mine /workspace/all/ada /workspace";
    assert_eq!(sh(&server, "note-1", stat).await, "0:0\n1000:1001\n0:0");
    // On the disk nobody else of the machine gets there.
    use std::os::unix::fs::MetadataExt as _;
    let sandboxes = std::fs::metadata(server.data.join("sandboxes")).expect("it is there");
    assert_eq!(sandboxes.mode() & 0o077, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn setuid_and_devices_do_nothing() {
    let server = Server::start().await;
    let script = "for d in /workspace /tmp /var/tmp; do cp /usr/bin/id $d/id && \
        chmod 4755 $d/id; done; chmod 755 /workspace; stat -c %a /workspace/id";
    assert_eq!(sh(&server, "a", script).await, "4755");
    let ids =
        sh_as(&server, "a", "1000:1000", "(/workspace/id -u; /var/tmp/id -u; id -u) 2>&1").await;
    assert_eq!(ids, "1000\n1000\n1000");
    let script = "for d in / /tmp /dev /dev/shm /workspace /run; do \
        mknod $d/disk b 8 0 2>/dev/null && echo $d; mknod $d/mem c 1 1 2>/dev/null && echo $d; done; \
awk '$5 ~ \"^(/|/workspace|/tmp|/run|/dev|/dev/shm|/usr|/proc|/sys)$\"' /proc/self/mountinfo";
    let told = sh(&server, "a", script).await;
    for line in told.lines() {
        let fields: Vec<_> = line.split(' ').collect();
        assert!(fields.len() > 6, "a device was made: {told}");
        let options: Vec<_> = fields[5].split(',').collect();
        assert!(options.contains(&"nosuid"), "{line}");
        // What /dev needs are mounts of their own.
        assert!(options.contains(&"nodev") || fields[4] == "/dev", "{line}");
    }
    let script = "ls /dev; head -c 3 /dev/zero | wc -c; echo x > /dev/null; echo x > /dev/full";
    let told = sh(&server, "a", &format!("{script} 2>&1 | tail -1")).await;
    let names = told.split_whitespace().take_while(|w| *w != "3").collect::<Vec<_>>();
    let usual = [
        "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
        "urandom", "zero",
    ];
    assert_eq!(names, usual, "{told}");
}
