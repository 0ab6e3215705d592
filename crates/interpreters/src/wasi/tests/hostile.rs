//! Ways out, and what must not be opened.

use super::*;
use rustix::fs::{FileType, Mode};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
fn no_path_leads_out() {
    let mut sys = Sys::new();
    let outside = sys.at("outside/secret");
    symlink(&outside, sys.at("workspace/absolute")).expect("symlink");
    symlink("../outside/secret", sys.at("workspace/relative")).expect("symlink");
    symlink("../outside", sys.at("workspace/dir")).expect("symlink");
    symlink("/", sys.at("workspace/slash")).expect("symlink");
    symlink("/proc/self", sys.at("workspace/proc")).expect("symlink");
    sys.mkdir("sub").expect("mkdir");
    let long = format!("{}etc/passwd", "../".repeat(60));
    for path in [
        "../outside/secret",
        "sub/../../outside/secret",
        "absolute",
        "relative",
        "dir/secret",
        "slash/etc/passwd",
        "proc/environ",
        "/etc/passwd",
        "//etc/passwd",
        "/workspace/mine",
        "../etc",
        "../workspace/../etc/passwd",
        &long,
    ] {
        let error = sys.read_only(path.as_bytes()).expect_err(path);
        // The directories of the test may lie in the host's /tmp, and the guest has one too.
        let own = path == "absolute" && error == Errno::NOENT;
        assert!(error == Errno::PERM || own, "{path}: {error:?}");
        assert!(sys.stat(WORKSPACE, path, 1).is_err(), "{path}");
        for oflags in [CREATE, CREATE | TRUNCATE, TRUNCATE, DIRECTORY] {
            assert!(sys.open(path, oflags).is_err(), "{path} {oflags}");
        }
    }
    for path in ["../outside/new", "dir/new", "/tmp/new", "sub/../../outside/new"] {
        assert!(sys.mkdir(path).is_err(), "{path}");
        assert!(sys.symlink("x", path).is_err(), "{path}");
        assert!(sys.open(path, CREATE).is_err(), "{path}");
        sys.open("mine", CREATE).expect("create");
        assert!(sys.rename("mine", path).is_err(), "{path}");
        assert!(sys.link("mine", path).is_err(), "{path}");
    }
    for path in ["../outside/secret", "dir/secret"] {
        assert!(sys.unlink(path).is_err(), "{path}");
        assert!(sys.rename(path, "stolen").is_err(), "{path}");
        assert!(sys.link(path, "stolen").is_err(), "{path}");
        assert!(sys.readlink(path).is_err(), "{path}");
    }
    assert!(sys.rmdir("../outside").is_err());
    assert_eq!(std::fs::read_to_string(&outside).expect("read"), "secret");
    assert_eq!(std::fs::read_dir(sys.at("outside")).expect("list").count(), 1);
}

#[test]
fn links_are_seen_as_links_and_work_inside() {
    let mut sys = Sys::new();
    sys.mkdir("a").expect("mkdir");
    let fd = sys.open("a/file", CREATE).expect("create");
    sys.write(fd, b"inside").expect("write");
    sys.symlink("../a/file", "a/link").expect("symlink");
    sys.symlink("/etc/passwd", "out").expect("it is only a name");
    assert_eq!(sys.readlink("out").expect("readlink"), b"/etc/passwd");
    assert_eq!(sys.stat(WORKSPACE, "out", 0).expect("stat").0, 7);
    assert_eq!(sys.stat(WORKSPACE, "out", 1), Err(Errno::PERM));
    let fd = sys.read_only(b"a/link").expect("it stays inside");
    assert_eq!(sys.read(fd, 100).expect("read"), b"inside");
    sys.link("a/file", "hard").expect("link");
    assert_eq!(sys.stat(WORKSPACE, "hard", 1), Ok((4, 6)));
    assert_eq!(sys.link("a", "dir"), Err(Errno::PERM));
    sys.unlink("out").expect("unlink");
}

#[test]
fn pipes_sockets_and_devices_are_refused_at_once() {
    let mut sys = Sys::new();
    let workspace = Places::open(&sys.at("workspace")).expect("open");
    let mode = Mode::from(0o666);
    rustix::fs::mknodat(&workspace, "pipe", FileType::Fifo, mode, 0).expect("mkfifo");
    let _socket = UnixListener::bind(sys.at("workspace/socket")).expect("bind");
    let mut names = vec!["pipe", "socket"];
    // Only root can make one.
    let null = rustix::fs::makedev(1, 3);
    if rustix::fs::mknodat(&workspace, "null", FileType::CharacterDevice, mode, null).is_ok() {
        names.push("null");
    }
    for name in names {
        for rights in [rights::READ, rights::WRITE, rights::ALL] {
            for oflags in [0, CREATE, TRUNCATE, DIRECTORY] {
                let error = sys.open_as(WORKSPACE, name.as_bytes(), oflags, rights, 0);
                assert!(error.is_err(), "{name} {rights:#x} {oflags}");
            }
        }
        assert!(sys.stat(WORKSPACE, name, 1).is_ok(), "{name} can be looked at");
    }
}

/// A directory is exchanged for a link that leads out, over and over, while the guest goes
/// through it.
#[test]
fn no_race_leads_out() {
    let mut sys = Sys::new();
    std::fs::create_dir(sys.at("workspace/real")).expect("mkdir");
    std::fs::write(sys.at("workspace/real/secret"), "harmless").expect("write");
    symlink("../outside", sys.at("workspace/link")).expect("symlink");
    symlink("real", sys.at("workspace/way")).expect("symlink");
    let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let swap = std::thread::spawn({
        let (stop, swaps, dir) = (stop.clone(), swaps.clone(), sys.at("workspace"));
        move || {
            while !stop.load(Ordering::Relaxed) {
                for target in ["../outside", "real"] {
                    symlink(target, dir.join("new")).expect("symlink");
                    std::fs::rename(dir.join("new"), dir.join("way")).expect("rename");
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    let (mut inside, mut refused) = (0u64, 0u64);
    let begun = Instant::now();
    // As long as it takes to have met both often.
    while begun.elapsed() < Duration::from_secs(30) {
        match sys.read_only(b"way/secret") {
            Ok(fd) => {
                assert_eq!(sys.read(fd, 100).expect("read"), b"harmless");
                sys.close(fd).expect("close");
                inside += 1;
            }
            Err(_) => refused += 1,
        }
        if let Ok(fd) = sys.open("way/made", CREATE) {
            sys.close(fd).expect("close");
        }
        if swaps.load(Ordering::Relaxed) > 1000 && inside > 500 && refused > 500 {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    swap.join().expect("it swapped");
    assert!(inside > 0 && refused > 0, "{inside} {refused}");
    assert_eq!(std::fs::read_dir(sys.at("outside")).expect("list").count(), 1);
}

#[test]
fn what_is_read_only_stays_as_it_is() {
    let mut sys = Sys::new();
    let fd = sys.open_as(LIB, b"module", 0, rights::READING, 0).expect("open");
    assert_eq!(sys.read(fd, 100).expect("read"), b"module");
    assert_eq!(sys.write(fd, b"x"), Err(Errno::BADF));
    for (path, oflags, rights) in [
        ("module", 0, rights::WRITE),
        ("module", TRUNCATE, rights::READ),
        ("new", CREATE, rights::READ),
        ("new", CREATE, rights::ALL),
    ] {
        let error = sys.open_as(LIB, path.as_bytes(), oflags, rights, 0);
        assert_eq!(error, Err(Errno::ROFS), "{path} {oflags}");
    }
    let (at, len) = sys.put(PATH, b"module");
    let mut mem = Mem(&mut sys.mem);
    assert_eq!(sys.wasi.path_unlink_file(&mut mem, LIB, at, len), Err(Errno::ROFS));
    assert_eq!(sys.wasi.path_create_directory(&mut mem, LIB, at, len), Err(Errno::ROFS));
    assert_eq!(sys.wasi.path_rename(&mut mem, LIB, at, len, WORKSPACE, at, len), Err(Errno::ROFS));
    assert_eq!(sys.wasi.fd_filestat_set_times(&mut mem, fd, 0, 0, 1), Err(Errno::ROFS));
    assert_eq!(std::fs::read_to_string(sys.at("lib/module")).expect("read"), "module");
}

#[test]
fn root_and_dev_hold_what_they_say() {
    let mut sys = Sys::new();
    let root = sys.open_as(ROOT, b".", DIRECTORY, rights::READDIR, 0).expect("open");
    let names: [&[u8]; 6] = [b".", b"..", b"dev", b"lib", b"tmp", b"workspace"];
    assert_eq!(sys.list(root, 4096).expect("list"), names);
    assert_eq!(sys.open_as(ROOT, b"etc/passwd", 0, rights::READ, 0), Err(Errno::NOENT));
    assert_eq!(sys.open_as(ROOT, b"new", CREATE, rights::ALL, 0), Err(Errno::ROFS));
    let dev = sys.open_as(DEV, b".", DIRECTORY, rights::READDIR, 0).expect("open");
    let names: [&[u8]; 3] = [b".", b"..", b"null"];
    assert_eq!(sys.list(dev, 4096).expect("list"), names);
    let null = sys.open_as(DEV, b"null", CREATE, rights::ALL, 0).expect("open");
    assert_eq!(sys.write(null, b"gone"), Ok(4));
    assert_eq!(sys.read(null, 10).expect("read"), b"");
    assert_eq!(sys.stat(DEV, "null", 1).expect("stat").0, 2);
}
