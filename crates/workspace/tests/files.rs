//! Reading, writing, listing, moving, copying, deleting.

mod common;

use common::{Bench, errno, p};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use types::FileType;
use workspace::{FilePath, Limits};

#[test]
fn what_is_written_is_read() {
    let bench = Bench::new();
    let written = bench.put("a", "one").unwrap();
    assert!(written.created && written.size == 3);
    assert!(!bench.put("a", "two!").unwrap().created);
    assert_eq!(bench.get("a").unwrap(), b"two!");
    bench.put("empty", "").unwrap();
    assert_eq!(bench.get("empty").unwrap(), b"");
    let file = bench.ws.read(&p("a")).unwrap();
    assert_eq!(file.at(1, 2).unwrap(), b"wo");
    assert_eq!(file.at(4, 2).unwrap(), b"");
    assert_eq!(file.at(100, 2).unwrap(), b"");
    // It is the same file whatever its name means by now.
    bench.put("a", "new").unwrap();
    assert_eq!(file.at(0, 9).unwrap(), b"two!");
    assert_ne!(file.tag(), bench.ws.read(&p("a")).unwrap().tag());
    fs::write(bench.on_disk("shrinks"), "long text").unwrap();
    let file = bench.ws.read(&p("shrinks")).unwrap();
    fs::write(bench.on_disk("shrinks"), "x").unwrap();
    assert_eq!(errno(file.at(0, 9)), "ESTALE");
}

#[test]
fn errors_have_their_errno() {
    let bench = Bench::new();
    bench.put("file", "x").unwrap();
    bench.ws.mkdir(&p("dir"), false).unwrap();
    for (found, expected) in [
        (errno(bench.get("missing")), "ENOENT"),
        (errno(bench.get("missing/x")), "ENOENT"),
        (errno(bench.get("file/x")), "ENOTDIR"),
        (errno(bench.get("dir")), "EISDIR"),
        (errno(bench.get("")), "EISDIR"),
        (errno(bench.put("missing/x", "")), "ENOENT"),
        (errno(bench.put("file/x", "")), "ENOTDIR"),
        (errno(bench.put("dir", "")), "EISDIR"),
        (errno(bench.put("", "")), "EISDIR"),
        (errno(bench.ws.mkdir(&p("dir"), false)), "EEXIST"),
        (errno(bench.ws.mkdir(&p("dir"), true)), "none"),
        (errno(bench.ws.mkdir(&p(""), false)), "EEXIST"),
        (errno(bench.ws.mkdir(&p(""), true)), "none"),
        (errno(bench.ws.mkdir(&p("file"), false)), "EEXIST"),
        (errno(bench.ws.mkdir(&p("file"), true)), "EEXIST"),
        (errno(bench.ws.mkdir(&p("file/x"), true)), "ENOTDIR"),
        (errno(bench.ws.mkdir(&p("file/x"), false)), "ENOTDIR"),
        (errno(bench.ws.mkdir(&p("no/x"), false)), "ENOENT"),
        (errno(bench.ws.list(&p("missing"), false, true)), "ENOENT"),
        (errno(bench.ws.list(&p("file"), false, true)), "ENOTDIR"),
        (errno(bench.ws.stat(&p("missing"))), "ENOENT"),
        (errno(bench.ws.delete(&p("missing"), false, false)), "ENOENT"),
        (errno(bench.ws.delete(&p("missing/x"), true, true)), "none"),
        (errno(bench.ws.delete(&p("dir"), false, true)), "EISDIR"),
        (errno(bench.ws.delete(&p(""), true, true)), "EACCES"),
        (errno(bench.ws.delete(&p("file/x"), true, true)), "ENOTDIR"),
        (errno(bench.ws.archive(&p("missing")).map(drop)), "ENOENT"),
        (errno(bench.ws.unpack(&p("file"), std::io::empty())), "ENOTDIR"),
    ] {
        assert_eq!(found, expected);
    }
    assert!(bench.ws.exists(&p("dir")).unwrap());
    assert!(!bench.ws.exists(&p("nothing")).unwrap());
    assert!(!bench.ws.exists(&p("file/x")).unwrap());
    symlink("nothing", bench.on_disk("dangling")).unwrap();
    assert!(!bench.ws.exists(&p("dangling")).unwrap());
    let error = bench.ws.read(&p("missing")).err().unwrap();
    let error = error.public(types::FileOperation::Read, &p("missing"));
    assert_eq!(error.code.as_str(), "FILE_NOT_FOUND");
    assert_eq!(error.context["path"], "/workspace/missing");
    assert_eq!(error.context["operation"], "file.read");
    assert_eq!(error.context["errno"], "ENOENT");
}

#[test]
fn files_that_are_no_files_are_refused_and_never_waited_for() {
    let bench = Bench::new();
    let fifo = bench.on_disk("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.on_disk("socket")).unwrap();
    for name in ["fifo", "socket"] {
        assert_eq!(errno(bench.get(name)), "EACCES", "{name}");
        assert_eq!(errno(bench.put(name, "x")), "EACCES", "{name}");
        assert_eq!(errno(bench.ws.copy(&p(name), &p("copy"), true, true)), "EACCES", "{name}");
        assert_eq!(errno(bench.ws.archive(&p(name)).map(drop)), "EACCES", "{name}");
        assert_eq!(errno(bench.ws.list(&p(name), false, true)), "ENOTDIR", "{name}");
        assert_eq!(errno(bench.ws.mkdir(&p(name), true)), "EEXIST", "{name}");
        let info = bench.ws.stat(&p(name)).unwrap();
        assert_eq!(info.kind, FileType::Other);
        assert!(!info.permissions.readable);
    }
    bench.ws.mkdir(&p("dir"), false).unwrap();
    fs::rename(&fifo, bench.on_disk("dir/fifo")).unwrap();
    assert_eq!(errno(bench.ws.copy(&p("dir"), &p("copy"), true, true)), "EACCES");
    assert!(!bench.ws.exists(&p("copy")).unwrap(), "half a copy is left");
    let mut tar = Vec::new();
    bench.ws.archive(&p("dir")).unwrap().write_to(&mut tar).unwrap();
    bench.ws.delete(&p("dir"), true, false).unwrap();
    bench.ws.delete(&p("socket"), false, false).unwrap();
    assert!(bench.names("").is_empty());
    // Where devices can be made at all.
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        bench.on_disk("null"),
        rustix::fs::FileType::CharacterDevice,
        mode,
        rustix::fs::makedev(1, 3),
    );
    if made.is_ok() {
        assert_eq!(errno(bench.get("null")), "EACCES");
        assert_eq!(errno(bench.put("null", "x")), "EACCES");
    }
}

#[test]
fn modes_are_kept() {
    let bench = Bench::new();
    bench.put("new", "x").unwrap();
    assert_eq!(fs::metadata(bench.on_disk("new")).unwrap().mode(), 0o100644);
    fs::set_permissions(bench.on_disk("new"), fs::Permissions::from_mode(0o750)).unwrap();
    bench.put("new", "y").unwrap();
    assert_eq!(fs::metadata(bench.on_disk("new")).unwrap().mode(), 0o100750);
    fs::set_permissions(bench.on_disk("new"), fs::Permissions::from_mode(0o4755)).unwrap();
    bench.put("new", "z").unwrap();
    assert_eq!(fs::metadata(bench.on_disk("new")).unwrap().mode(), 0o100755);
    bench.ws.mkdir(&p("dir"), false).unwrap();
    assert_eq!(fs::metadata(bench.on_disk("dir")).unwrap().mode(), 0o40755);
    bench.ws.copy(&p("new"), &p("copy"), false, true).unwrap();
    assert_eq!(fs::metadata(bench.on_disk("copy")).unwrap().mode(), 0o100755);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(bench.on_disk("new"), Some(1000), Some(1000)).unwrap();
        bench.put("new", "own").unwrap();
        let owner = fs::metadata(bench.on_disk("new")).unwrap();
        assert_eq!((owner.uid(), owner.gid()), (1000, 1000));
        let given = bench.ws.clone().owned_by(7, 8);
        common::put(&given, &p("given"), b"x").unwrap();
        given.mkdir(&p("given-dir"), false).unwrap();
        for name in ["given", "given-dir"] {
            let owner = fs::metadata(bench.on_disk(name)).unwrap();
            assert_eq!((owner.uid(), owner.gid()), (7, 8));
        }
    }
}

#[test]
fn lists_are_in_order_and_tell_all() {
    let bench = Bench::new();
    bench.ws.mkdir(&p("a/b"), true).unwrap();
    for name in ["a/z", "a.txt", "a/b/c", ".hidden", "B"] {
        bench.put(name, "12345").unwrap();
    }
    bench.ws.mkdir(&p("a/.git"), false).unwrap();
    bench.put("a/.git/config", "").unwrap();
    symlink("a", bench.on_disk("link")).unwrap();
    let names = |path: &str, recursive, hidden| -> Vec<String> {
        let list = bench.ws.list(&p(path), recursive, hidden).unwrap();
        assert!(!list.truncated);
        list.files.into_iter().map(|f| f.relative_path).collect()
    };
    assert_eq!(names("", false, false), ["B", "a", "a.txt", "link"]);
    assert_eq!(names("", false, true), [".hidden", "B", "a", "a.txt", "link"]);
    assert_eq!(names("", true, false), ["B", "a", "a.txt", "a/b", "a/b/c", "a/z", "link"]);
    let all =
        [".hidden", "B", "a", "a.txt", "a/.git", "a/.git/config", "a/b", "a/b/c", "a/z", "link"];
    assert_eq!(names("", true, true), all);
    assert_eq!(names("link", false, false), ["b", "z"]);
    assert_eq!(names("a/.git", false, false), ["config"]);
    let list = bench.ws.list(&p("a"), true, false).unwrap().files;
    let file = &list[1];
    assert_eq!(
        (&*file.name, &*file.absolute_path, &*file.relative_path),
        ("c", "/workspace/a/b/c", "b/c")
    );
    assert_eq!((file.kind, file.size, &*file.mode), (FileType::File, 5, "-rw-r--r--"));
    assert!(file.permissions.readable && file.permissions.writable && !file.permissions.executable);
    assert_eq!(
        (list[0].kind, list[0].size, &*list[0].mode),
        (FileType::Directory, 0, "drwxr-xr-x")
    );
    let link = bench.ws.stat(&p("link")).unwrap();
    assert_eq!((link.kind, &*link.name), (FileType::Symlink, "link"));
    let root = bench.ws.stat(&FilePath::root()).unwrap();
    assert_eq!(
        (&*root.absolute_path, &*root.relative_path, root.kind),
        ("/workspace", ".", FileType::Directory)
    );
}

#[test]
fn ten_thousand_entries_are_listed_packed_and_deleted() {
    let bench = Bench::new();
    bench.ws.mkdir(&p("many"), false).unwrap();
    for n in 0..10_000 {
        fs::write(bench.on_disk(&format!("many/{n:05}")), "x").unwrap();
    }
    let list = bench.ws.list(&p(""), true, false).unwrap();
    assert_eq!(list.files.len(), 10_001);
    assert!(list.files.is_sorted_by(|a, b| a.relative_path < b.relative_path));
    bench.ws.forget_usage();
    assert_eq!(bench.ws.usage().unwrap().entries, 10_001);
    let mut tar = Vec::new();
    bench.ws.archive(&p("many")).unwrap().write_to(&mut tar).unwrap();
    bench.ws.copy(&p("many"), &p("copy"), true, true).unwrap();
    assert_eq!(bench.names("copy").len(), 10_000);
    bench.ws.delete(&p("many"), true, false).unwrap();
    assert_eq!(bench.names("").len(), 10_001);
    bench.ws.mkdir(&p("back"), false).unwrap();
    assert_eq!(bench.ws.unpack(&p("back"), &*tar).unwrap().entries, 10_000);
    assert_eq!(bench.ws.usage().unwrap().entries, 20_002);
    let small = Bench::with(Limits { entries: 50, ..Limits::default() });
    for n in 0..60 {
        fs::write(small.on_disk(&n.to_string()), "x").unwrap();
    }
    let list = small.ws.list(&p(""), true, false).unwrap();
    assert!(list.truncated && list.files.len() == 50);
}

#[test]
fn moving_goes_by_the_rules() {
    let bench = Bench::new();
    let mv = |from: &str, to: &str| errno(bench.ws.rename(&p(from), &p(to), true));
    bench.ws.mkdir(&p("dir/sub"), true).unwrap();
    bench.ws.mkdir(&p("empty"), false).unwrap();
    bench.put("file", "f").unwrap();
    bench.put("other", "o").unwrap();
    bench.put("dir/in", "i").unwrap();
    assert_eq!(mv("file", "empty"), "EISDIR");
    let error = bench.ws.rename(&p("file"), &p("empty"), true).unwrap_err();
    let error = error.public(types::FileOperation::Move, &p("file"));
    assert!(error.message.starts_with("/workspace/empty: it is a directory"), "{}", error.message);
    assert_eq!(error.context["path"], "/workspace/file");
    assert_eq!(mv("dir", "file"), "ENOTDIR");
    assert_eq!(mv("empty", "dir"), "ENOTEMPTY");
    assert_eq!(mv("dir", "dir/sub"), "EINVAL");
    assert_eq!(mv("dir", "dir/sub/new"), "EINVAL");
    assert_eq!(mv("dir/sub", "dir"), "ENOTEMPTY");
    assert_eq!(mv("", "x"), "EACCES");
    assert_eq!(mv("dir", ""), "EACCES");
    assert_eq!(mv("missing", "x"), "ENOENT");
    assert_eq!(mv("file", "missing/x"), "ENOENT");
    assert_eq!(mv("file", "other/x"), "ENOTDIR");
    assert_eq!(mv("file", "file"), "none");
    assert_eq!(errno(bench.ws.rename(&p("file"), &p("other"), false)), "EEXIST");
    assert_eq!(errno(bench.ws.rename(&p("file"), &p("fresh"), false)), "none");
    assert_eq!(mv("fresh", "other"), "none");
    assert_eq!(bench.get("other").unwrap(), b"f");
    assert_eq!(mv("dir", "empty"), "none");
    assert_eq!(bench.get("empty/in").unwrap(), b"i");
    assert_eq!(bench.names(""), ["empty", "empty/in", "empty/sub", "other"]);
    assert_eq!(bench.ws.usage().unwrap().entries, 4);
    assert_eq!(bench.ws.usage().unwrap().bytes, 2);
}

#[test]
fn copying_goes_by_the_rules() {
    let bench = Bench::new();
    let cp = |from: &str, to: &str| errno(bench.ws.copy(&p(from), &p(to), true, true));
    bench.ws.mkdir(&p("dir/sub"), true).unwrap();
    bench.put("dir/in", vec![7; 3 << 20]).unwrap();
    bench.put("file", "f").unwrap();
    symlink("in", bench.on_disk("dir/link")).unwrap();
    bench.ws.forget_usage();
    assert_eq!(errno(bench.ws.copy(&p("dir"), &p("x"), false, true)), "EISDIR");
    assert_eq!(errno(bench.ws.copy(&p("file"), &p("dir/in"), false, false)), "EEXIST");
    assert_eq!(cp("file", "dir"), "EISDIR");
    assert_eq!(cp("dir", "file"), "ENOTDIR");
    assert_eq!(cp("dir", "dir"), "EEXIST");
    assert_eq!(cp("dir", "dir/copy"), "EINVAL");
    assert_eq!(cp("dir", "dir/sub/copy"), "EINVAL");
    assert_eq!(cp("", "copy"), "EINVAL");
    assert_eq!(cp("file", "file"), "none");
    assert_eq!(cp("file", ""), "EACCES");
    assert_eq!(cp("missing", "x"), "ENOENT");
    assert_eq!(cp("dir", "copy"), "none");
    assert_eq!(bench.names("copy"), ["in", "link", "sub"]);
    assert_eq!(bench.get("copy/link").unwrap(), vec![7; 3 << 20]);
    assert!(fs::symlink_metadata(bench.on_disk("copy/link")).unwrap().is_symlink());
    let before = bench.ws.usage().unwrap();
    bench.ws.forget_usage();
    assert_eq!(bench.ws.usage().unwrap(), before, "what is kept is what is counted");
}

/// As an ordinary user, whom modes bind: what cannot be read is counted and listed as far as it
/// can be, and is in nobody's way.
#[test]
fn what_may_not_be_read_is_in_nobodys_way() {
    const USER: &str = "SANDKEEP_TEST_AS_USER";
    if rustix::process::geteuid().is_root() && std::env::var_os(USER).is_none() {
        // Once more, as somebody else.
        let own = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let program = dir.path().join("tests");
        fs::copy(own, &program).unwrap();
        let mut command = std::process::Command::new(program);
        std::os::unix::process::CommandExt::uid(&mut command, 65_533);
        std::os::unix::process::CommandExt::gid(&mut command, 65_533);
        command.args(["--exact", "what_may_not_be_read_is_in_nobodys_way"]);
        command.env(USER, "1").env("TMPDIR", dir.path()).current_dir("/");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let bench = Bench::new();
    for (dir, mode) in [("closed", 0o000), ("blind", 0o444)] {
        bench.ws.mkdir(&p(&format!("{dir}/sub")), true).unwrap();
        bench.put(&format!("{dir}/file"), "x").unwrap();
        fs::set_permissions(bench.on_disk(dir), fs::Permissions::from_mode(mode)).unwrap();
    }
    bench.ws.forget_usage();
    bench.put("file", "x").unwrap();
    assert_eq!(bench.ws.usage().unwrap(), workspace::Usage { bytes: 1, entries: 3 });
    assert_eq!(bench.names(""), ["blind", "closed", "file"]);
    assert_eq!(errno(bench.get("closed/file")), "EACCES");
    assert_eq!(errno(bench.ws.archive(&p("")).unwrap().write_to(std::io::sink())), "EACCES");
    assert_eq!(errno(bench.ws.copy(&p("closed"), &p("copy"), true, true)), "EACCES");
    bench.ws.delete(&p("file"), false, false).unwrap();
    for dir in ["closed", "blind"] {
        fs::set_permissions(bench.on_disk(dir), fs::Permissions::from_mode(0o755)).unwrap();
        bench.ws.delete(&p(dir), true, false).unwrap();
    }
}
