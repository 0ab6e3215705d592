//! The process that one sandbox's interpreters run in: what it sees, may do and leaves.

mod common;

use common::{BASE, is_root, wait_until};
use serde_json::{Value, json};
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_spawner-jail");

/// A workspace and a cache, and the program where the caller can execute it.
struct Bed {
    dir: TempDir,
    ordinary: bool,
}

impl Bed {
    fn new(ordinary: bool) -> Self {
        let dir = match ordinary && is_root() {
            // Where another user can come.
            true => tempfile::tempdir().expect("a directory"),
            false => common::scratch(),
        };
        let path = |name: &str| dir.path().join(name);
        for name in ["workspace", "engines"] {
            std::fs::create_dir(path(name)).expect("make a directory");
        }
        std::fs::write(path("workspace/given"), "by the server").expect("write");
        std::fs::set_permissions(path("workspace/given"), Permissions::from_mode(0o600))
            .expect("chmod");
        std::fs::write(path("engines/python"), "compiled").expect("write");
        std::fs::copy(PROGRAM, path("program")).expect("copy");
        if ordinary && is_root() {
            for name in ["", "workspace", "workspace/given", "program"] {
                std::os::unix::fs::chown(path(name), Some(65533), Some(65533)).expect("chown");
            }
            std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("chmod");
        }
        Self { dir, ordinary }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, mode: &str) -> Command {
        let mut command = Command::new(self.path("program"));
        let base = if self.ordinary { "none".to_owned() } else { BASE.to_string() };
        command.arg(base).arg(self.path("workspace")).arg(self.path("engines")).arg(mode);
        command.env_clear().current_dir("/").stdin(Stdio::null());
        if self.ordinary && is_root() {
            command.uid(65533).gid(65533);
        }
        command
    }

    fn run(&self, mode: &str) -> Value {
        let output = self.command(mode).output().expect("run");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", output.status);
        let told = serde_json::from_slice(&output.stdout);
        told.unwrap_or_else(|e| panic!("{e}: {errors}"))
    }

    fn look(&self) -> Value {
        let told = self.run("look");
        assert_eq!(told["code"], 0, "{told}");
        let report = told["report"].as_str().expect("a report");
        let mut seen: Value = serde_json::from_str(report).expect("JSON");
        seen["outside"] = told["outside"].clone();
        seen
    }
}

/// The modes that this user can have.
fn beds() -> Vec<Bed> {
    let kinds = if is_root() { vec![false, true] } else { vec![true] };
    kinds.into_iter().map(Bed::new).collect()
}

#[test]
fn it_sees_its_own_things_alone() {
    for bed in beds() {
        let seen = bed.look();
        assert_eq!(seen["root"], json!(["engines", "tmp", "workspace"]));
        assert_eq!(seen["engines"], json!(["python"]));
        assert_eq!(seen["environment"], 0);
        assert_eq!(seen["uname"], "worker");
        assert!(seen["shadow"].as_str().expect("text").contains("os error 2"), "{seen}");
        assert_eq!(seen["pid"], 1);
        assert_eq!(seen["ids"], json!([0, 0]));
        // 0-2 of the parent; the report and the map of pages are closed, and the hold was taken.
        let fds = &seen["outside"]["fds"];
        assert_eq!(fds.as_array().expect("names").len(), 4, "{fds}");
        let mounts = seen["outside"]["mounts"].as_str().expect("text");
        assert_eq!(mounts.lines().count(), 4, "{mounts}");
        assert_eq!(seen["thread"], 42);
        // As a page of the file, and as the worker's own.
        let pages: Vec<u64> = serde_json::from_value(seen["pagemap"].clone()).expect("numbers");
        assert_eq!(pages, [0b101, 0b100], "written pages are told from the base's");
    }
}

#[test]
fn it_may_do_nothing_but_files_memory_and_threads() {
    for bed in beds() {
        let seen = bed.look();
        for (what, errno) in seen["attempts"].as_object().expect("attempts") {
            assert_eq!(*errno, libc::EPERM, "{what}");
        }
        let three = "000000000000000b";
        let none = "0000000000000000";
        assert_eq!(seen["outside"]["capabilities"], json!([none, three, three, three, none]));
        assert_eq!(seen["outside"]["rules"], json!(["1", "2"]));
        for namespace in seen["outside"]["namespaces"].as_array().expect("a list") {
            let name = namespace.as_str().expect("text");
            let kind = name.split_once(":[").unwrap_or_else(|| panic!("{name}")).0;
            let ours = std::fs::read_link(format!("/proc/self/ns/{kind}")).expect("read");
            assert_ne!(ours, Path::new(name));
        }
        assert_eq!(seen["outside"]["oom"], "500");
        assert_eq!(seen["outside"]["name"], "worker");
        if !bed.ordinary {
            assert_eq!(seen["outside"]["groups"], "");
        }
        for name in ["root_write", "engine_write"] {
            assert_eq!(seen[name], libc::EROFS, "{name}");
        }
        assert_eq!(seen["tmp_full"], libc::ENOSPC);
        let (files, errno): (u64, i32) =
            serde_json::from_value(seen["tmp_files"].clone()).expect("it fills");
        assert!(files < 1000 && errno == libc::ENOSPC, "{files} {errno}");
    }
}

#[test]
fn files_have_the_ids_of_an_instance() {
    for bed in beds() {
        let made = bed.path("workspace/made");
        let seen = bed.look();
        assert_eq!(seen["made"], Value::Null);
        assert_eq!(seen["read"], "by the server", "whatever its mode");
        assert_eq!(seen["owner"], json!([0, 0]));
        let found = std::fs::metadata(&made).expect("the file is there");
        let owner = std::fs::metadata(bed.path("workspace/given")).expect("given").uid();
        assert_eq!((found.uid(), found.gid()), (owner, owner));
        if !bed.ordinary {
            assert_eq!(owner, 0, "ids on the disk are those inside");
        }
        assert_eq!(std::fs::read_to_string(made).expect("read"), "by the worker");
    }
}

fn alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.contains("State:") && !status.contains("State:\tZ")
}

#[test]
fn it_dies_with_its_parent_whether_or_not_it_was_told_what_to_be() {
    for (bed, mode) in beds().iter().flat_map(|bed| [(bed, "stay"), (bed, "wait")]) {
        let mut parent = bed.command(mode).stdout(Stdio::piped()).spawn().expect("start");
        let mut line = String::new();
        BufReader::new(parent.stdout.take().expect("a pipe")).read_line(&mut line).expect("read");
        let pid = line.trim();
        assert!(alive(pid), "{pid} runs");
        parent.kill().expect("kill");
        parent.wait().expect("wait");
        wait_until("the child is gone", || !alive(pid));
    }
}

#[test]
fn many_leave_nothing() {
    for bed in beds() {
        let told = bed.run("many");
        assert_eq!(told["before"], told["after"]);
        assert!(Path::new(&bed.path("workspace/given")).exists());
    }
}

#[test]
fn a_process_with_threads_is_refused() {
    let dir = common::scratch();
    let place = common::dir_fd(dir.path());
    let spec = spawner::jail::Spec {
        name: "worker",
        workspace: std::os::fd::AsFd::as_fd(&place),
        binds: &[],
        tmp_bytes: 1 << 20,
        ids: None,
        network: false,
        keep: &[],
    };
    // The test runner itself is one.
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || stopped.recv());
    let refused = spawner::jail::fork(&spec, |_| 0).expect_err("refused");
    assert!(refused.to_string().contains("threads"), "{refused}");
    drop(stop);
    let _ = thread.join();
}
