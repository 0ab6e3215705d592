//! What a path may say, and where it may lead.

mod common;

use common::{Bench, errno, p};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use workspace::FilePath;

#[test]
fn paths_are_made_plain() {
    for (path, plain) in [
        ("/workspace/a", "/workspace/a"),
        ("a", "/workspace/a"),
        ("a//b/./c/", "/workspace/a/b/c"),
        ("//workspace///a", "/workspace/a"),
        ("/./workspace/a", "/workspace/a"),
        ("a/../b", "/workspace/b"),
        ("/workspace", "/workspace"),
        ("", "/workspace"),
        (".", "/workspace"),
        ("../workspace/a", "/workspace/a"),
        ("/etc/../workspace/a", "/workspace/a"),
        ("workspace/a", "/workspace/workspace/a"),
        ("...", "/workspace/..."),
        ("a\\..\\b", "/workspace/a\\..\\b"),
        ("%2e%2e", "/workspace/%2e%2e"),
    ] {
        assert_eq!(p(path).to_string(), plain, "{path:?}");
    }
    for path in [
        "..",
        "../..",
        "/",
        "/etc/passwd",
        "a/../../etc",
        "/workspace/..",
        "/workspacex/a",
        "/workspace/../../a",
    ] {
        assert_eq!(errno(FilePath::parse(path.as_bytes())), "EACCES", "{path:?}");
    }
    assert_eq!(errno(FilePath::parse(b"a\0b")), "EINVAL");
    assert_eq!(errno(FilePath::parse(&vec![b'a'; 70_000])), "EINVAL");
}

#[test]
fn links_that_lead_out_are_refused_everywhere() {
    let bench = Bench::new();
    let out = bench.dir.path().join("outside");
    symlink(&out, bench.on_disk("absolute")).unwrap();
    symlink("../outside", bench.on_disk("relative")).unwrap();
    symlink("../secret", bench.on_disk("file")).unwrap();
    symlink("/etc", bench.on_disk("etc")).unwrap();
    symlink("/proc/self/root", bench.on_disk("magic")).unwrap();
    symlink("/workspace/../secret", bench.on_disk("climbs")).unwrap();
    symlink("/workspacex", bench.on_disk("like")).unwrap();
    symlink("relative", bench.on_disk("chain")).unwrap();
    for link in ["absolute", "relative", "etc", "magic", "chain"] {
        let inside = p(&format!("{link}/file"));
        assert_eq!(errno(bench.ws.read(&inside)), "EACCES", "{link}");
        assert_eq!(errno(bench.ws.write(&inside, None)), "EACCES", "{link}");
        assert_eq!(errno(bench.ws.stat(&inside)), "EACCES", "{link}");
        assert_eq!(errno(bench.ws.exists(&inside)), "EACCES", "{link}");
        assert_eq!(errno(bench.ws.delete(&inside, true, true)), "EACCES", "{link}");
        assert_eq!(errno(bench.ws.mkdir(&inside, true)), "EACCES", "{link}");
        assert_eq!(errno(bench.ws.list(&p(link), true, true)), "EACCES", "{link}");
        assert_eq!(errno(bench.ws.archive(&p(link))), "EACCES", "{link}");
        assert_eq!(errno(bench.ws.unpack(&p(link), std::io::empty())), "EACCES", "{link}");
        assert_eq!(errno(bench.ws.copy(&p(link), &p("copy"), true, true)), "EACCES", "{link}");
        assert_eq!(errno(bench.ws.rename(&inside, &p("moved"), true)), "EACCES", "{link}");
    }
    for link in ["file", "climbs", "like"] {
        assert_eq!(errno(bench.get(link)), "EACCES", "{link}");
        assert_eq!(errno(bench.put(link, "x")), "EACCES", "{link}");
    }
    bench.put("own", "x").unwrap();
    assert_eq!(errno(bench.ws.rename(&p("own"), &p("relative/own"), true)), "EACCES");
    assert_eq!(errno(bench.ws.copy(&p("own"), &p("relative/own"), true, true)), "EACCES");
    // The links themselves may be told of, moved and deleted.
    assert_eq!(bench.ws.stat(&p("etc")).unwrap().mode, "lrwxrwxrwx");
    bench.ws.rename(&p("etc"), &p("moved"), true).unwrap();
    bench.ws.delete(&p("moved"), true, false).unwrap();
    bench.ws.delete(&p("absolute"), true, false).unwrap();
    assert_eq!(fs::read(bench.dir.path().join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read(out.join("file")).unwrap(), b"outside");
    assert_eq!(fs::read_dir(out).unwrap().count(), 1);
}

#[test]
fn links_that_stay_inside_are_followed() {
    let bench = Bench::new();
    bench.ws.mkdir(&p("a/b"), true).unwrap();
    bench.put("a/b/file", "inside").unwrap();
    symlink("a/b", bench.on_disk("relative")).unwrap();
    symlink("/workspace/a/b", bench.on_disk("absolute")).unwrap();
    symlink("../../a/b/file", bench.on_disk("a/b/up")).unwrap();
    symlink("../../../workspace/a/b/file", bench.on_disk("a/b/round")).unwrap();
    symlink("/workspace/a/b/new", bench.on_disk("dangling")).unwrap();
    symlink("/workspace", bench.on_disk("root")).unwrap();
    symlink("loop", bench.on_disk("loop")).unwrap();
    symlink("/workspace/absolute-loop", bench.on_disk("absolute-loop")).unwrap();
    let paths = ["relative/file", "absolute/file", "a/b/up", "absolute/up", "root/a/b/file"];
    for path in paths.into_iter().chain(["a/b/round", "relative/round"]) {
        assert_eq!(bench.get(path).unwrap(), b"inside", "{path}");
    }
    bench.put("dangling", "made").unwrap();
    assert_eq!(fs::read(bench.on_disk("a/b/new")).unwrap(), b"made");
    assert!(fs::symlink_metadata(bench.on_disk("dangling")).unwrap().is_symlink());
    bench.put("absolute/file", "changed").unwrap();
    assert_eq!(bench.get("a/b/file").unwrap(), b"changed");
    assert_eq!(bench.ws.list(&p("root"), false, true).unwrap().files.len(), 7);
    for path in ["loop", "absolute-loop", "loop/x"] {
        assert_eq!(errno(bench.get(path)), "ELOOP", "{path}");
    }
}

#[test]
fn names_of_any_bytes_survive() {
    let bench = Bench::new();
    let long = vec![b'n'; 255];
    let names: Vec<&[u8]> = vec![
        b"new\nline",
        b"tab\t",
        b"\xff\xfe",
        b"a\xffb\\c",
        b"\x01\x7f",
        b" ",
        b"-rf",
        b"%2F",
        b"\xc3\xa9",
        b"a?b*[c]",
        b"\"quoted\"",
        b".hidden",
        b"~",
        &long,
    ];
    for name in &names {
        let path = FilePath::parse(name).unwrap();
        common::put(&bench.ws, &path, name).unwrap();
        assert_eq!(&common::get(&bench.ws, &path).unwrap(), name);
        assert_eq!(&fs::read(bench.on_disk("").join(OsStr::from_bytes(name))).unwrap(), name);
        let dir = [b"dir-", &name[..name.len().min(200)]].concat();
        bench.ws.mkdir(&FilePath::parse(&dir).unwrap(), false).unwrap();
    }
    let list = bench.ws.list(&FilePath::root(), false, true).unwrap().files;
    assert_eq!(list.len(), 2 * names.len());
    let odd = list.iter().find(|f| f.name_base64.as_deref() == Some("Yf9iXGM=")).unwrap();
    assert_eq!(odd.name, "a\\xffb\\\\c");
    assert_eq!(odd.absolute_path, "/workspace/a\\xffb\\\\c");
    assert_eq!(odd.absolute_path_base64.as_deref(), Some("L3dvcmtzcGFjZS9h/2JcYw=="));
    let plain = list.iter().find(|f| f.name == "new\nline").unwrap();
    assert_eq!((&plain.name_base64, &plain.absolute_path_base64), (&None, &None));
    for name in &names {
        bench.ws.delete(&FilePath::parse(name).unwrap(), false, false).unwrap();
    }
    assert_eq!(errno(bench.put(&"n".repeat(256), "x")), "EINVAL");
}

#[test]
fn deep_trees_are_reached_listed_and_deleted() {
    let bench = Bench::new();
    let name = "d".repeat(200);
    let deep = vec![name.as_str(); 30].join("/");
    bench.ws.mkdir(&p(&deep), true).unwrap();
    bench.put(&format!("{deep}/file"), "deep").unwrap();
    assert_eq!(bench.get(&format!("{deep}/file")).unwrap(), b"deep");
    assert_eq!(bench.names("").len(), 31);
    // Deeper than descriptors go, made by renaming.
    for _ in 0..40 {
        bench
            .ws
            .mkdir(&p("top/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x"), true)
            .unwrap();
        let end = "top/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/under";
        if bench.ws.exists(&p("under")).unwrap() {
            bench.ws.rename(&p("under"), &p(end), true).unwrap();
        }
        bench.ws.rename(&p("top"), &p("under"), true).unwrap();
    }
    let usage = bench.ws.usage().unwrap();
    assert!(usage.entries > 1200, "{usage:?}");
    assert!(bench.names("under").len() > 1200);
    bench.ws.delete(&p("under"), true, false).unwrap();
    bench.ws.delete(&p(&name), true, false).unwrap();
    assert!(bench.names("").is_empty());
}
