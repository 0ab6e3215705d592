//! Links that are absolute or climb out of a place, and lead to where the guest may be.

use super::*;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

impl Sys {
    /// `a/b/file` in the workspace, `x` in /tmp, and links to them.
    fn with_links() -> Self {
        let sys = Sys::new();
        std::fs::create_dir_all(sys.at("workspace/a/b")).expect("mkdir");
        std::fs::write(sys.at("workspace/a/b/file"), "inside").expect("write");
        std::fs::write(sys.at("tmp/x"), "temporary").expect("write");
        for (name, target) in [
            ("file", "/workspace/a/b/file"),
            ("dir", "/workspace/a/b"),
            ("dir-slash", "//workspace/./a/b/"),
            ("chain", "dir"),
            ("a/up", "../../workspace/a/b/file"),
            ("tmp", "/tmp"),
            ("x", "../tmp/x"),
            ("lib", "/lib"),
            ("root", "/"),
            ("dev", "/dev"),
            ("null", "/dev/null"),
            ("self", "/workspace"),
            ("new", "/workspace/a/new"),
            ("new-slash", "/workspace/a/newer/"),
            ("file-slash", "/workspace/a/b/file/"),
            ("loop", "/workspace/loop"),
            ("one", "/workspace/two"),
            ("two", "../workspace/one"),
        ] {
            symlink(target, sys.at("workspace").join(name)).expect("symlink");
        }
        sys
    }

    fn text(&mut self, path: &str) -> Result<String, Errno> {
        let fd = self.read_only(path.as_bytes())?;
        let bytes = self.read(fd, 100)?;
        self.close(fd)?;
        Ok(String::from_utf8(bytes).expect("UTF-8"))
    }

    fn not_followed(&mut self, path: &str, oflags: u32) -> Result<u32, Errno> {
        let (at, len) = self.put(PATH, path.as_bytes());
        let (mut mem, all) = (Mem(&mut self.mem), rights::ALL);
        self.wasi.path_open(&mut mem, WORKSPACE, 0, at, len, oflags, all, all, 0, ANSWER)?;
        Ok(self.answer())
    }
}

#[test]
fn what_a_guest_has_is_found() {
    let mut sys = Sys::with_links();
    for (path, text) in [
        ("file", "inside"),
        ("dir/file", "inside"),
        ("dir-slash/file", "inside"),
        ("chain/file", "inside"),
        ("a/up", "inside"),
        ("self/self/self/a/../dir/file", "inside"),
        ("tmp/x", "temporary"),
        ("x", "temporary"),
        ("../tmp/x", "temporary"),
        ("../../tmp/../workspace/file", "inside"),
        ("lib/module", "module"),
        ("root/lib/module", "module"),
        ("root/workspace/dir/file", "inside"),
        ("null", ""),
        ("dev/null", ""),
    ] {
        assert_eq!(sys.text(path).as_deref(), Ok(text), "{path}");
        assert!(sys.stat(WORKSPACE, path, 1).is_ok(), "{path}");
    }
    assert_eq!(sys.stat(WORKSPACE, "file", 1), Ok((4, 6)));
    assert_eq!(sys.stat(WORKSPACE, "null", 1).expect("stat").0, 2);
    for path in ["dir", "dir/", "dir/.", "chain/.", "root", "self", "tmp/", "..", "dev"] {
        assert_eq!(sys.stat(WORKSPACE, path, 1).expect(path).0, 3, "{path}");
    }
    let fd = sys.open("root", DIRECTORY).expect("open");
    assert_eq!(sys.list(fd, 4096).expect("list").len(), 6, "names of places and no others");
    let fd = sys.open("dir", DIRECTORY).expect("open");
    assert_eq!(sys.list(fd, 4096).expect("list"), [&b"."[..], b"..", b"file"]);
    let fd = sys.open_as(fd, b"file", 0, rights::READING, 0).expect("from there");
    assert_eq!(sys.read(fd, 10).expect("read"), b"inside");
    assert_eq!(sys.text("file/"), Err(Errno::NOTDIR));
    assert_eq!(sys.text("file-slash"), Err(Errno::NOTDIR));
    assert_eq!(sys.text("dir/none"), Err(Errno::NOENT));
    assert_eq!(sys.text("file/none"), Err(Errno::NOTDIR));
    assert_eq!(sys.text("root/usr"), Err(Errno::PERM));
    assert_eq!(sys.text("dev/tty"), Err(Errno::NOENT));
}

#[test]
fn rings_of_links_end() {
    let mut sys = Sys::with_links();
    for path in ["loop", "loop/x", "one", "two/x"] {
        assert_eq!(sys.text(path), Err(Errno::LOOP), "{path}");
        assert_eq!(sys.stat(WORKSPACE, path, 1), Err(Errno::LOOP), "{path}");
        assert_eq!(sys.open(path, CREATE), Err(Errno::LOOP), "{path}");
    }
    for index in 0..50 {
        let target = format!("/workspace/{}", index + 1);
        symlink(target, sys.at(&format!("workspace/{index}"))).expect("symlink");
    }
    std::fs::write(sys.at("workspace/50"), "end").expect("write");
    assert_eq!(sys.text("10").as_deref(), Ok("end"), "as many as the kernel follows");
    assert_eq!(sys.text("9"), Err(Errno::LOOP));
}

/// A guest cannot be stopped while a way is walked.
#[test]
fn links_of_many_names_end() {
    let mut sys = Sys::new();
    sys.mkdir("d").expect("mkdir");
    for index in 0..39 {
        let target = format!("/workspace/{}{}", "d/../".repeat(810), index + 1);
        symlink(target, sys.at(&format!("workspace/{index}"))).expect("symlink");
    }
    std::fs::write(sys.at("workspace/39"), "end").expect("write");
    assert_eq!(sys.text("37").as_deref(), Ok("end"));
    for path in ["0", "30", "36"] {
        assert_eq!(sys.text(path), Err(Errno::LOOP), "{path}");
        assert_eq!(sys.stat(WORKSPACE, path, 1), Err(Errno::LOOP), "{path}");
    }
}

#[test]
fn the_last_name_is_a_link_to_who_asks_for_it() {
    let mut sys = Sys::with_links();
    for path in ["file", "chain", "self/file", "root/workspace/file"] {
        assert_eq!(sys.stat(WORKSPACE, path, 0).expect("stat").0, 7, "{path}");
        assert_eq!(sys.not_followed(path, 0), Err(Errno::LOOP), "{path}");
    }
    assert_eq!(sys.stat(WORKSPACE, "dir/", 0).expect("stat").0, 3);
    assert_eq!(sys.stat(WORKSPACE, "self/file", 1), Ok((4, 6)));
    assert_eq!(sys.readlink("self/a/up").expect("readlink"), b"../../workspace/a/b/file");
    assert_eq!(sys.readlink("root/workspace"), Err(Errno::INVAL));
    sys.unlink("self/file").expect("the link itself");
    assert_eq!(std::fs::read(sys.at("workspace/a/b/file")).expect("it stays"), b"inside");
}

#[test]
fn what_is_made_through_links_lies_where_they_lead() {
    let mut sys = Sys::with_links();
    assert_eq!(sys.open("new", CREATE | EXCLUSIVE), Err(Errno::EXIST), "the link is there");
    assert_eq!(sys.text("new"), Err(Errno::NOENT));
    let fd = sys.open("new", CREATE).expect("create");
    sys.write(fd, b"made").expect("write");
    assert_eq!(std::fs::read(sys.at("workspace/a/new")).expect("read"), b"made");
    assert!(std::fs::symlink_metadata(sys.at("workspace/new")).expect("stat").is_symlink());
    assert_eq!(sys.open("new-slash", CREATE), Err(Errno::ISDIR));
    sys.open("new", TRUNCATE).expect("truncate");
    assert_eq!(std::fs::read(sys.at("workspace/a/new")).expect("read"), b"");
    sys.open("dir/made", CREATE | EXCLUSIVE).expect("create");
    sys.mkdir("dir/sub").expect("mkdir");
    sys.symlink("x", "dir/link").expect("symlink");
    sys.link("file", "dir/hard").expect("of the link");
    sys.rename("dir/made", "self/a/moved").expect("rename");
    for path in ["a/b/sub", "a/b/link", "a/b/hard", "a/moved"] {
        let there = std::fs::symlink_metadata(sys.at("workspace").join(path));
        assert!(there.is_ok(), "{path}");
    }
    sys.unlink("dir/link").expect("unlink");
    sys.rmdir("dir/sub").expect("rmdir");
    sys.mkdir("tmp/sub").expect("mkdir");
    assert!(sys.at("tmp/sub").is_dir());
    assert_eq!(sys.rename("self/a/moved", "tmp/moved"), Err(Errno::XDEV));
    assert_eq!(sys.mkdir("root/new"), Err(Errno::ROFS));
    assert_eq!(sys.unlink("root/workspace"), Err(Errno::ROFS));
}

#[test]
fn what_is_read_only_stays_so_behind_links() {
    let mut sys = Sys::with_links();
    symlink("/lib/made", sys.at("workspace/made")).expect("symlink");
    symlink("/lib/module", sys.at("workspace/module")).expect("symlink");
    for path in ["lib/module", "module", "root/lib/module", "../lib/module"] {
        assert_eq!(sys.text(path).as_deref(), Ok("module"), "{path}");
        for (oflags, rights) in [(0, rights::WRITE), (TRUNCATE, rights::READ)] {
            let error = sys.open_as(WORKSPACE, path.as_bytes(), oflags, rights, 0);
            assert_eq!(error, Err(Errno::ROFS), "{path} {oflags}");
        }
        let (at, len) = sys.put(PATH, path.as_bytes());
        let mut mem = Mem(&mut sys.mem);
        let times = sys.wasi.path_filestat_set_times(&mut mem, WORKSPACE, 1, at, len, 0, 0, 5);
        assert_eq!(times, Err(Errno::ROFS), "{path}");
    }
    for path in ["made", "lib/made"] {
        assert_eq!(
            sys.open_as(WORKSPACE, path.as_bytes(), CREATE, rights::READ, 0),
            Err(Errno::ROFS)
        );
        assert_eq!(sys.open(path, CREATE), Err(Errno::ROFS), "{path}");
    }
    assert_eq!(sys.mkdir("lib/new"), Err(Errno::ROFS));
    assert_eq!(sys.unlink("lib/module"), Err(Errno::ROFS));
    sys.open("mine", CREATE).expect("create");
    assert_eq!(sys.rename("mine", "lib/module"), Err(Errno::ROFS));
    assert_eq!(sys.rename("lib/module", "mine"), Err(Errno::ROFS));
    assert_eq!(sys.link("lib/module", "stolen"), Err(Errno::ROFS));
    // Nor from a directory that was opened through one.
    let dir = sys.open("lib", DIRECTORY).expect("open");
    assert_eq!(sys.open_as(dir, b"module", 0, rights::WRITE, 0), Err(Errno::ROFS));
    assert_eq!(sys.open_as(dir, b"new", CREATE, rights::ALL, 0), Err(Errno::ROFS));
    let fd = sys.open_as(dir, b"module", 0, rights::READING, 0).expect("open");
    assert_eq!(
        sys.wasi.fd_filestat_set_times(&mut Mem(&mut sys.mem), fd, 0, 0, 1),
        Err(Errno::ROFS)
    );
    assert_eq!(std::fs::read_to_string(sys.at("lib/module")).expect("read"), "module");
    assert_eq!(std::fs::read_dir(sys.at("lib")).expect("list").count(), 1);
}

#[test]
fn what_lies_behind_links_counts_to_where_it_lies() {
    let mut sys = Sys::with_links();
    (sys.wasi.room.entries, sys.wasi.room.bytes) = (2, 10);
    let fd = sys.open("tmp/more", CREATE).expect("not the workspace's");
    assert_eq!(sys.write(fd, b"more than ten bytes"), Ok(19));
    assert_eq!((sys.wasi.room.entries, sys.wasi.room.bytes), (2, 10));
    let fd = sys.open("dir/more", CREATE).expect("create");
    assert_eq!(sys.write(fd, b"more than ten bytes"), Ok(10));
    sys.mkdir("self/d").expect("mkdir");
    assert_eq!((sys.wasi.room.entries, sys.wasi.room.bytes), (0, 0));
    assert!(sys.open("self/e", CREATE).is_err());
    assert!(sys.open("new", CREATE).is_err());
    sys.unlink("dir/more").expect("unlink");
    assert_eq!((sys.wasi.room.entries, sys.wasi.room.bytes), (1, 10));
    sys.unlink("tmp/more").expect("unlink");
    assert_eq!((sys.wasi.room.entries, sys.wasi.room.bytes), (1, 10));
}

#[test]
fn what_was_opened_through_links_is_open_after_a_restore() {
    let mut sys = Sys::with_links();
    let file = sys.open("dir/file", 0).expect("open");
    let (dir, lib) = (sys.open("chain", DIRECTORY).expect("open"), sys.open("lib", DIRECTORY));
    let lib = lib.expect("open");
    sys.read(file, 2).expect("read");
    sys.rename("a", "moved").expect("rename");
    // The way that it was opened by leads elsewhere now.
    std::fs::remove_file(sys.at("workspace/dir")).expect("remove");
    let mut sys = sys.restored();
    assert_eq!(sys.read(file, 10).expect("read"), b"side");
    assert_eq!(sys.list(dir, 4096).expect("list").len(), 3);
    assert_eq!(sys.open_as(lib, b"new", CREATE, rights::ALL, 0), Err(Errno::ROFS));
    let fd = sys.open_as(lib, b"module", 0, rights::READING, 0).expect("open");
    assert_eq!(sys.read(fd, 10).expect("read"), b"module");
}

/// From a directory that is open, nothing goes up: what is above it may have changed.
#[test]
fn nothing_goes_up_from_an_open_directory() {
    let mut sys = Sys::with_links();
    let dir = sys.open("a/b", DIRECTORY).expect("open");
    symlink("../up", sys.at("workspace/a/b/relative")).expect("symlink");
    symlink("/workspace/file", sys.at("workspace/a/b/absolute")).expect("symlink");
    for path in [&b".."[..], b"../up", b"relative", b"../../../etc"] {
        let opened = sys.open_as(dir, path, 0, rights::READING, 0);
        assert_eq!(opened, Err(Errno::PERM), "{path:?}");
    }
    let fd = sys.open_as(dir, b"absolute", 0, rights::READING, 0).expect("open");
    assert_eq!(sys.read(fd, 10).expect("read"), b"inside");
}

/// A directory is exchanged for links to `/` and to another place, over and over, while the guest
/// goes through it by an absolute link.
#[test]
fn no_race_leads_out_by_an_absolute_link() {
    let mut sys = Sys::new();
    for dir in ["workspace/top/real", "tmp/real"] {
        std::fs::create_dir_all(sys.at(dir)).expect("mkdir");
    }
    std::fs::write(sys.at("workspace/top/real/secret"), "harmless").expect("write");
    std::fs::write(sys.at("tmp/real/secret"), "temporary").expect("write");
    let outside = sys.at("outside");
    std::fs::create_dir(outside.join("real")).expect("mkdir");
    std::fs::write(outside.join("real/secret"), "secret").expect("write");
    symlink("/workspace/top/real", sys.at("workspace/way")).expect("symlink");
    symlink("/workspace", sys.at("workspace/self")).expect("symlink");
    let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let swap = std::thread::spawn({
        let (stop, swaps, dir) = (stop.clone(), swaps.clone(), sys.at("workspace"));
        move || {
            while !stop.load(Ordering::Relaxed) {
                for target in [outside.as_path(), "/".as_ref(), "/tmp".as_ref(), "/lib".as_ref()] {
                    symlink(target, dir.join("link")).expect("symlink");
                    std::fs::rename(dir.join("top"), dir.join("kept")).expect("rename");
                    std::fs::rename(dir.join("link"), dir.join("top")).expect("rename");
                    std::fs::remove_file(dir.join("top")).expect("remove");
                    std::fs::rename(dir.join("kept"), dir.join("top")).expect("rename");
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    let (mut inside, mut refused) = (0u64, 0u64);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(30) {
        for path in ["way/secret", "self/top/real/secret"] {
            match sys.text(path).as_deref() {
                Ok("harmless" | "temporary") => inside += 1,
                Ok(other) => panic!("{other}"),
                Err(_) => refused += 1,
            }
        }
        if let Ok(fd) = sys.open("way/made", CREATE) {
            sys.close(fd).expect("close");
        }
        let _ = sys.mkdir("way/sub");
        if swaps.load(Ordering::Relaxed) > 2000 && inside > 500 && refused > 500 {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    swap.join().expect("it swapped");
    assert!(inside > 0 && refused > 0, "{inside} {refused}");
    assert_eq!(std::fs::read_dir(sys.at("outside/real")).expect("list").count(), 1);
    assert_eq!(std::fs::read_dir(sys.at("outside")).expect("list").count(), 2);
    assert_eq!(std::fs::read_dir(sys.at("lib")).expect("list").count(), 1);
}
