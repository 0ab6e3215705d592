//! `sandkeep cp` with a real server: both ways, every spelling, hostile names, broken connections.

mod common;

use common::{Server, sandkeep, told, until};
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

/// All that lies below a directory: path, kind, mode, contents.
fn listing(of: &Path) -> Vec<(Vec<u8>, String)> {
    let mut all = Vec::new();
    let mut due = vec![of.to_owned()];
    while let Some(dir) = due.pop() {
        for entry in std::fs::read_dir(dir).expect("there") {
            let path = entry.expect("an entry").path();
            let meta = std::fs::symlink_metadata(&path).expect("there");
            let told = if meta.is_symlink() {
                format!("-> {:?}", std::fs::read_link(&path).expect("a link"))
            } else if meta.is_dir() {
                due.push(path.clone());
                "directory".to_owned()
            } else {
                let bytes = std::fs::read(&path).expect("there");
                format!("{:o} {bytes:?}", meta.permissions().mode() & 0o777)
            };
            let name = path.strip_prefix(of).expect("below").as_os_str().as_bytes();
            all.push((name.to_vec(), told));
        }
    }
    all.sort();
    all
}

#[test]
fn a_tree_goes_in_and_comes_back() {
    let (data, here) = (directory(), directory());
    let server = Server::start(data.path(), &[]);
    let tree = here.path().join("tree");
    let at = |name: &[u8]| tree.join(OsStr::from_bytes(name));
    std::fs::create_dir_all(at(b"d/e/empty")).expect("made");
    let long = [b'n'; 255];
    for name in [&b"-rf"[..], b"a\nb", b"\xff\xfe", b" ", b"\\x41", b"d/;rm *", b".hidden", &long] {
        std::fs::write(at(name), name).expect("written");
    }
    std::fs::set_permissions(at(b"-rf"), std::fs::Permissions::from_mode(0o750)).expect("set");
    symlink("../-rf", at(b"d/link")).expect("made");
    symlink("nowhere", at(b"dangling")).expect("made");
    let kept = listing(&tree);
    symlink("../../..", at(b"d/out")).expect("made");
    rustix::fs::mkfifoat(rustix::fs::CWD, at(b"fifo"), 0o600.into()).expect("made");

    let (code, stdout, stderr) = server.verb(&["cp", &text(&tree), "a:"]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert_eq!(stderr.matches("left out ").count(), 2, "{stderr}");
    // The instance sees them as root does.
    let count = ["find", "/workspace/tree", "-mindepth", "1", "-printf", "x"];
    let seen = server.ok(&[&["exec", "a", "--"][..], &count].concat());
    assert_eq!(seen.len(), kept.len());
    assert_eq!(server.ok(&["exec", "a", "--", "cat", "/workspace/tree/d/link"]), "-rf");

    let back = here.path().join("back");
    server.ok(&["cp", "a:tree", &text(&back)]);
    assert_eq!(listing(&back), kept);
    // Once more, into what is there: the same again, and what else is there stays.
    std::fs::write(back.join("mine"), "x").expect("written");
    let json = server.json(&["cp", "a:/workspace/tree/.", &text(&back)]);
    assert_eq!(json["entries"], kept.len());
    assert_eq!(listing(&back).len(), kept.len() + 1);
}

/// Each link by its text alone leads to what is inside.
#[test]
fn links_that_lead_out_by_other_links_are_left_out() {
    let (data, here) = (directory(), directory());
    let server = Server::start(data.path(), &[]);
    let code = "mkdir -p p/d && cd p && ln -s . s && ln -s s/../secret t && ln -s s/s/s/../../.. v \
                && echo x > f && ln -s ../f d/f";
    server.ok(&["exec", "a", "--", "sh", "-c", code]);
    std::fs::create_dir(here.path().join("out")).expect("made");
    std::fs::write(here.path().join("out/secret"), "mine").expect("written");
    let to = here.path().join("out/p");
    let (code, stdout, stderr) = server.verb(&["cp", "a:p", &text(&to)]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    for name in ["t", "v"] {
        assert!(stderr.contains(&format!("left out {name}: a link to ")), "{stderr}");
    }
    let names: Vec<_> = listing(&to).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [&b"d"[..], b"d/f", b"f", b"s"]);
    assert_eq!(std::fs::read(to.join("d/f")).expect("there"), b"x\n");
}

#[test]
fn names_are_found_as_they_are_spelled() {
    let (data, here) = (directory(), directory());
    let server = Server::start(data.path(), &[]);
    let at = |name: &str| text(&here.path().join(name));
    std::fs::create_dir_all(at("d/in")).expect("made");
    std::fs::write(at("f"), "f").expect("written");
    std::fs::write(at("d/g"), "g").expect("written");
    std::fs::create_dir(at("out")).expect("made");

    let there = |name: &str| {
        let (code, stdout, _) = server.verb(&["exec", "s", "--", "cat", name]);
        (code == 0).then_some(stdout)
    };
    // A file: into a directory, as a new name, over a file; never where no directory is.
    for (from, to, name) in [
        ("f", "s:", "f"),
        ("f", "s:/workspace/", "f"),
        ("f", "s:new", "new"),
        ("f", "s:/workspace/./x/../new", "new"),
        ("d", "s:d", "d/g"),
        ("d/", "s:d", "d/d/g"),
        ("d/.", "s:d", "d/g"),
        ("d", "s:e/", "e/g"),
        ("d/g", "s:new", "new"),
        ("f", "s:d/in", "d/in/f"),
    ] {
        server.ok(&["cp", &at(from), to]);
        let contents = if from == "f" { "f" } else { "g" };
        assert_eq!(there(name).as_deref(), Some(contents), "{from} {to}");
    }
    for (from, to, why) in [
        (at("f"), "s:no/such", "no"),
        (at("f"), "s:none/", "not there"),
        (at("f"), "s:new/", "a file is at DST"),
        (at("d"), "s:new", "a file is at DST"),
        (at("d"), "s:no/such", "no"),
        (at("f"), "s:../f", "leads out of /workspace"),
        (at("f"), "s:/etc/f", "leads out of /workspace"),
        (at("f/."), "s:", "Not a directory"),
        (at("f"), "s:d/in/f/x", "d"),
    ] {
        let (code, _, stderr) = server.verb(&["cp", &from, to]);
        assert_eq!(code, 125, "{from} {to}");
        assert!(stderr.starts_with("error: ") && stderr.contains(why), "{from} {to}: {stderr}");
    }
    // The same on the way back.
    for (from, to, name) in [
        ("s:f", "out", "out/f"),
        ("s:f", "out/", "out/f"),
        ("s:f", "out/renamed", "out/renamed"),
        ("s:d", "out/n", "out/n/g"),
        ("s:d", "out/n", "out/n/d/g"),
        ("s:d/.", "out", "out/g"),
        ("s:", "all", "all/f"),
    ] {
        server.ok(&["cp", from, &at(to)]);
        assert!(here.path().join(name).is_file(), "{from} {to}");
    }
    for (from, to, why) in [
        ("s:none", at("x"), "none"),
        ("s:f/", at("x"), "f"),
        ("s:f", at("no/such"), "cannot open the directory"),
        ("s:f", at("none/"), "is not there"),
        ("s:d", at("f"), "no directory can become"),
        ("none:f", at("x"), "no such sandbox"),
        ("s:../f", at("x"), "leads out of /workspace"),
    ] {
        let (code, _, stderr) = server.verb(&["cp", from, &to]);
        assert_eq!(code, 125, "{from} {to}");
        assert!(stderr.starts_with("error: ") && stderr.contains(why), "{from} {to}: {stderr}");
    }
    assert!(!here.path().join("x").exists());
}

#[test]
fn devices_and_fifos_are_not_replaced() {
    use std::os::unix::fs::FileTypeExt as _;
    let (data, here) = (directory(), directory());
    let server = Server::start(data.path(), &[]);
    server.ok(&["run", "s", "--", "sh", "-c", "echo x > f"]);
    let fifo = here.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("made");
    let (code, _, stderr) = server.verb(&["cp", "s:f", &text(&fifo)]);
    assert_eq!(code, 125);
    assert!(stderr.contains("is neither a file nor a directory"), "{stderr}");
    assert!(std::fs::symlink_metadata(&fifo).expect("there").file_type().is_fifo());
}

#[test]
fn archives_go_through_pipes() {
    let (data, here) = (directory(), directory());
    let server = Server::start(data.path(), &[]);
    std::fs::write(here.path().join("f"), "piped").expect("written");
    let with = |words: &[&str], stdin: Stdio| {
        let mut command = sandkeep();
        command.arg("--data").arg(data.path()).args(words).stdin(stdin);
        command.output().expect("the program starts")
    };
    let packed = Command::new("tar").arg("-C").arg(here.path()).args(["-cf", "-", "f"]).output();
    let packed = packed.expect("tar is there").stdout;
    let file = here.path().join("f.tar");
    std::fs::write(&file, &packed).expect("written");
    let open = || std::fs::File::open(&file).expect("there").into();
    let (code, _, stderr) = told(&with(&["cp", "-", "p:"], open()));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(server.ok(&["exec", "p", "--", "cat", "f"]), "piped");

    let archive = with(&["cp", "p:f", "-"], Stdio::null()).stdout;
    let mut tar = Command::new("tar")
        .args(["-xOf", "-", "f"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("tar is there");
    tar.stdin.take().expect("piped").write_all(&archive).expect("read");
    assert_eq!(told(&tar.wait_with_output().expect("it ends")).1, "piped");

    // What is no file here has no length, and comes whole all the same.
    let fifo = here.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).expect("made");
    let writer = {
        let fifo = fifo.clone();
        std::thread::spawn(move || std::fs::write(fifo, vec![b'z'; 1 << 20]))
    };
    server.ok(&["cp", &text(&fifo), "p:from-fifo"]);
    writer.join().expect("no panic").expect("written");
    assert_eq!(server.ok(&["exec", "p", "--", "stat", "-c", "%s", "from-fifo"]), "1048576\n");

    // Half an archive is refused, and not taken for all.
    let half = here.path().join("half.tar");
    std::fs::write(&half, &packed[..600]).expect("written");
    let half = std::fs::File::open(&half).expect("there").into();
    let (code, _, stderr) = told(&with(&["cp", "-", "p:"], half));
    assert_eq!(code, 125, "{stderr}");
}

/// Eight files that take a while.
fn large(server: &Server) {
    let make = "for i in 1 2 3 4 5 6 7 8; do truncate -s 60M f$i; done";
    server.ok(&["exec", "l", "--", "sh", "-c", make]);
}

/// Begins to copy them and waits for the first one.
fn begin(server: &Server, to: &Path) -> Child {
    let child = sandkeep()
        .arg("--data")
        .arg(&server.data)
        .args(["cp", "l:"])
        .arg(to)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    until("the first one comes", || {
        let names = std::fs::read_dir(to).ok()?;
        (names.count() > 0).then_some(())
    });
    child
}

/// What is there is whole, and not all is there.
fn only_whole(to: &Path) {
    let names: Vec<_> = std::fs::read_dir(to).expect("there").flatten().collect();
    assert!(names.len() < 8, "it was too quick for this test");
    for entry in names {
        let name = entry.file_name();
        assert!(!name.to_string_lossy().starts_with('.'), "{name:?} is left");
        assert_eq!(entry.metadata().expect("there").len(), 60 << 20, "{name:?} is half");
    }
}

#[test]
fn a_server_that_is_killed_leaves_no_half_files() {
    let (data, here) = (directory(), directory());
    let stays = ["--stop-on-exit=false", "--check-interval=1s", "--inactivity-timeout=30s"];
    let mut server = Server::start(data.path(), &stays);
    large(&server);
    let to = here.path().join("to");
    let child = begin(&server, &to);
    rustix::process::kill_process(server.pid(), rustix::process::Signal::KILL).expect("there");
    server.wait();
    let (code, _, stderr) = told(&child.wait_with_output().expect("it ends"));
    assert_eq!(code, 125, "{stderr}");
    assert!(stderr.contains("broke off"), "{stderr}");
    only_whole(&to);
    // Ends what it left.
    drop(Server::start(data.path(), &[]));
}

#[test]
fn leaving_leaves_no_half_files() {
    let (data, here) = (directory(), directory());
    let server = Server::start(data.path(), &[]);
    large(&server);
    let to = here.path().join("to");
    let child = begin(&server, &to);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
    let (code, _, stderr) = told(&child.wait_with_output().expect("it ends"));
    assert_eq!(code, 130, "{stderr}");
    only_whole(&to);
}
