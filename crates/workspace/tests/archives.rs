//! Tar archives: there and back, and hostile ones.

mod common;

use common::{Bench, errno, p};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use tar::{EntryType, Header};
use workspace::{FilePath, Limits};

/// An archive with names that no builder would write.
#[derive(Default)]
struct Evil(Vec<u8>);

impl Evil {
    fn entry(mut self, kind: EntryType, name: &str, link: &str, data: &[u8]) -> Self {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(data.len() as u64);
        header.set_mtime(1_000_000_000);
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, name: &str, data: &str) -> Self {
        self.entry(EntryType::Regular, name, "", data.as_bytes())
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

fn pack(bench: &Bench, path: &str) -> Vec<u8> {
    let mut tar = Vec::new();
    bench.ws.archive(&p(path)).unwrap().write_to(&mut tar).unwrap();
    tar
}

#[test]
fn a_tree_goes_there_and_back() {
    let bench = Bench::new();
    let long = format!("{}/{}", "d".repeat(200), "f".repeat(255));
    bench.ws.mkdir(&p(&format!("from/{}", "d".repeat(200))), true).unwrap();
    bench.ws.mkdir(&p("from/empty"), true).unwrap();
    bench.put(&format!("from/{long}"), "long").unwrap();
    bench.put("from/large", vec![3; 5 << 20]).unwrap();
    bench.put("from/new\nline", "odd").unwrap();
    common::put(&bench.ws, &FilePath::parse(b"from/\xff\xfe").unwrap(), b"bytes").unwrap();
    symlink("large", bench.on_disk("from/link")).unwrap();
    symlink(format!("/workspace/{}", "t".repeat(150)), bench.on_disk("from/far")).unwrap();
    fs::set_permissions(bench.on_disk("from/large"), fs::Permissions::from_mode(0o751)).unwrap();
    let tar = pack(&bench, "from");
    bench.ws.mkdir(&p("to"), false).unwrap();
    let unpacked = bench.ws.unpack(&p("to"), &*tar).unwrap();
    assert_eq!(unpacked.entries, 8);
    assert_eq!(bench.names("from"), bench.names("to"));
    assert_eq!(bench.get("to/link").unwrap(), vec![3; 5 << 20]);
    assert_eq!(bench.get(&format!("to/{long}")).unwrap(), b"long");
    let (from, to) = (bench.on_disk("from/large"), bench.on_disk("to/large"));
    let (from, to) = (fs::metadata(from).unwrap(), fs::metadata(to).unwrap());
    assert_eq!((from.mode(), from.mtime()), (to.mode(), to.mtime()));
    // Once more on top of it.
    assert_eq!(bench.ws.unpack(&p("to"), &*tar).unwrap().entries, 8);
    bench.ws.forget_usage();
    let counted = bench.ws.usage().unwrap();
    assert_eq!((counted.entries, counted.bytes), (18, 2 * (4 + (5 << 20) + 3 + 5)));
    // One file alone.
    let tar = pack(&bench, "from/large");
    bench.ws.unpack(&p("to/empty"), &*tar).unwrap();
    assert_eq!(bench.names("to/empty"), ["large"]);
}

#[test]
fn the_tar_of_this_machine_reads_and_writes_them() {
    let bench = Bench::new();
    bench.ws.mkdir(&p("from/sub"), true).unwrap();
    bench.put(&format!("from/sub/{}", "n".repeat(240)), "long").unwrap();
    symlink("sub", bench.on_disk("from/link")).unwrap();
    let out = bench.dir.path().join("out");
    fs::create_dir(&out).unwrap();
    let mut child = Command::new("tar").arg("-xC").arg(&out).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&pack(&bench, "from")).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read(out.join("link").join("n".repeat(240))).unwrap(), b"long");
    for format in ["gnu", "pax", "ustar"] {
        let dir = bench.dir.path().join(format);
        fs::create_dir(&dir).unwrap();
        fs::create_dir(dir.join("d")).unwrap();
        let name = if format == "ustar" { "u".repeat(90) } else { "é".repeat(90) };
        fs::write(dir.join("d").join(&name), format).unwrap();
        symlink(&name, dir.join("d/link")).unwrap();
        fs::hard_link(dir.join("d").join(&name), dir.join("hard")).unwrap();
        let mut tar = Command::new("tar");
        tar.args(["-c", "--format", format, "-C"]).arg(&dir).arg(".");
        let tar = tar.output().unwrap().stdout;
        bench.ws.mkdir(&p(format), false).unwrap();
        bench.ws.unpack(&p(format), &*tar).unwrap();
        assert_eq!(bench.get(&format!("{format}/d/link")).unwrap(), format.as_bytes());
        assert_eq!(bench.get(&format!("{format}/hard")).unwrap(), format.as_bytes());
    }
}

#[test]
fn hostile_entries_are_refused_by_name() {
    let secret = "the secret".to_owned();
    for (name, tar, why) in [
        ("../up", Evil::default().file("../up", "x"), ".."),
        ("a/../../up", Evil::default().file("a/../../up", "x"), ".."),
        ("a/..", Evil::default().entry(EntryType::Directory, "a/..", "", b""), ".."),
        ("/etc/evil", Evil::default().file("/etc/evil", "x"), "absolute"),
        ("/workspace/evil", Evil::default().file("/workspace/evil", "x"), "absolute"),
        ("hard", Evil::default().entry(EntryType::Link, "hard", "../secret", b""), "hard link"),
        ("hard", Evil::default().entry(EntryType::Link, "hard", "/etc/passwd", b""), "hard link"),
        ("hard", Evil::default().entry(EntryType::Link, "hard", "", b""), "hard link"),
        ("soft", Evil::default().entry(EntryType::Symlink, "soft", "../secret", b""), "symbolic"),
        ("soft", Evil::default().entry(EntryType::Symlink, "soft", "/etc", b""), "symbolic"),
        ("soft", Evil::default().entry(EntryType::Symlink, "soft", "a/../../x", b""), "symbolic"),
        (
            "soft",
            Evil::default().entry(EntryType::Symlink, "soft", "/workspace/../x", b""),
            "symbolic",
        ),
        ("null", Evil::default().entry(EntryType::Char, "null", "", b""), "device"),
        ("disk", Evil::default().entry(EntryType::Block, "disk", "", b""), "device"),
        ("pipe", Evil::default().entry(EntryType::Fifo, "pipe", "", b""), "FIFO"),
        ("odd", Evil::default().entry(EntryType::new(b'Z'), "odd", "", b""), "kind"),
        ("holes", Evil::default().entry(EntryType::GNUSparse, "holes", "", b""), "holes"),
        // A link that an entry before it made, or that was there.
        ("out/file", Evil::default().file("out/file", "x"), "leads out"),
        (
            "chain/x",
            Evil::default()
                .entry(EntryType::Symlink, "one", "out", b"")
                .entry(EntryType::Symlink, "chain", "one", b"")
                .file("chain/x", "x"),
            "leads out",
        ),
        ("linked", Evil::default().entry(EntryType::Link, "linked", "out/file", b""), "leads out"),
    ] {
        let bench = Bench::new();
        symlink(bench.dir.path().join("outside"), bench.on_disk("out")).unwrap();
        let tar = tar.file("after", &secret).end();
        let error = bench.ws.unpack(&p(""), &*tar).unwrap_err();
        let error = error.public(types::FileOperation::WriteArchive, &p(""));
        assert_eq!(error.context["entry"], name, "{error}");
        assert!(error.message.contains(why) && error.message.contains(name), "{error}");
        assert!(!bench.ws.exists(&p("after")).unwrap(), "{name}: it went on");
        assert_eq!(fs::read(bench.dir.path().join("secret")).unwrap(), b"secret");
        assert_eq!(fs::read(bench.dir.path().join("outside/file")).unwrap(), b"outside");
        assert_eq!(fs::read_dir(bench.dir.path().join("outside")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(bench.dir.path()).unwrap().count(), 3);
        assert!(bench.names("").iter().all(|n| !n.starts_with(".sandkeep-")));
    }
}

#[test]
fn what_is_there_gives_way_or_not() {
    let bench = Bench::new();
    bench.ws.mkdir(&p("dir/sub"), true).unwrap();
    bench.put("file", "old").unwrap();
    bench.put("target", "kept").unwrap();
    symlink("target", bench.on_disk("link")).unwrap();
    let unpack = |tar: Evil| errno(bench.ws.unpack(&p(""), &*tar.end()));
    assert_eq!(unpack(Evil::default().file("dir", "x")), "EISDIR");
    assert_eq!(unpack(Evil::default().entry(EntryType::Directory, "file", "", b"")), "EEXIST");
    assert_eq!(unpack(Evil::default().file("file/x", "x")), "ENOTDIR");
    assert_eq!(unpack(Evil::default().entry(EntryType::Symlink, "dir", "file", b"")), "EISDIR");
    assert_eq!(unpack(Evil::default().file("link", "new").file("file", "new")), "none");
    // The link was replaced, not written through.
    assert_eq!(bench.get("target").unwrap(), b"kept");
    assert_eq!(bench.get("link").unwrap(), b"new");
    assert_eq!(bench.get("file").unwrap(), b"new");
    assert_eq!(fs::metadata(bench.on_disk("file")).unwrap().mtime(), 1_000_000_000);
    let hard = Evil::default().file("one", "same").entry(EntryType::Link, "two", "one", b"");
    assert_eq!(unpack(hard), "none");
    let ino = |name| fs::metadata(bench.on_disk(name)).unwrap().ino();
    assert_eq!(ino("one"), ino("two"));
    let again = Evil::default().entry(EntryType::Link, "two", "one", b"");
    assert_eq!(unpack(again), "none");
    assert_eq!(unpack(Evil::default().file("deep/er/file", "x").file("./dot/./x", "x")), "none");
    assert_eq!(bench.get("deep/er/file").unwrap(), b"x");
    assert_eq!(unpack(Evil::default().entry(EntryType::Directory, "./", "", b"")), "none");
    assert!(bench.names("").iter().all(|n| !n.contains(".sandkeep-")));
}

#[test]
fn what_is_no_archive_is_said_to_be_none() {
    let bench = Bench::new();
    let unpack = |bytes: &[u8]| errno(bench.ws.unpack(&p(""), bytes));
    assert_eq!(unpack(&[0x1f; 600]), "EINVAL");
    assert_eq!(unpack(b"{\"json\": true}"), "EINVAL");
    let tar = Evil::default().file("whole", "whole").file("cut", &"x".repeat(5000)).end();
    assert_eq!(unpack(&tar[..3000]), "EPIPE");
    assert_eq!(bench.names(""), ["whole"]);
    let mut huge = Evil::default().entry(EntryType::GNULongName, "x", "", b"").0;
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(1 << 40);
    header.set_cksum();
    huge.extend_from_slice(header.as_bytes());
    assert_eq!(
        errno(bench.ws.unpack(&p(""), std::io::Read::chain(&*huge, std::io::repeat(b'x')))),
        "EINVAL"
    );
}

#[test]
fn limits_hold_for_archives() {
    let limits = Limits { file_bytes: 1000, bytes: 5000, entries: 10 };
    let bench = Bench::with(limits);
    let unpack = |tar: Evil| errno(bench.ws.unpack(&p(""), &*tar.end()));
    assert_eq!(unpack(Evil::default().file("large", &"x".repeat(1001))), "EFBIG");
    let full = (0..6).fold(Evil::default(), |t, n| t.file(&n.to_string(), &"x".repeat(1000)));
    assert_eq!(unpack(full), "ENOSPC");
    assert_eq!(bench.names("").len(), 5);
    let many = (0..6)
        .fold(Evil::default(), |t, n| t.entry(EntryType::Directory, &format!("d{n}"), "", b""));
    assert_eq!(unpack(many), "ENOSPC");
    assert_eq!(bench.names("").len(), 10);
    assert_eq!(unpack(Evil::default().entry(EntryType::Link, "hard", "0", b"")), "ENOSPC");
    assert_eq!(unpack(Evil::default().entry(EntryType::Symlink, "soft", "0", b"")), "ENOSPC");
    bench.ws.delete(&p("d0"), true, false).unwrap();
    assert_eq!(unpack(Evil::default().entry(EntryType::Link, "hard", "0", b"")), "ENOSPC");
    assert_eq!(unpack(Evil::default().entry(EntryType::Symlink, "soft", "0", b"")), "none");
}
