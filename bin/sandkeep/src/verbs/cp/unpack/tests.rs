//! Archives of a server that means harm.

use super::{Target, open, unpack};
use crate::verbs::cp::Copied;
use crate::verbs::cp::entry::{Head, append};
use crate::verbs::cp::pipe::{In, pipe};
use bytes::Bytes;
use indicatif::ProgressBar;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use tar::{Builder, EntryType};

struct One<'a> {
    kind: EntryType,
    name: &'a [u8],
    link: &'a [u8],
    mode: u32,
    data: &'a [u8],
}

fn one<'a>(kind: EntryType, name: &'a [u8]) -> One<'a> {
    One { kind, name, link: b"", mode: 0o644, data: b"" }
}

fn file<'a>(name: &'a [u8], data: &'a [u8]) -> One<'a> {
    One { data, ..one(EntryType::Regular, name) }
}

fn link<'a>(name: &'a [u8], target: &'a [u8]) -> One<'a> {
    One { link: target, ..one(EntryType::Symlink, name) }
}

fn archive(entries: &[One<'_>]) -> Vec<u8> {
    let mut out = Builder::new(Vec::new());
    for entry in entries {
        let &One { kind, name, link, mode, data } = entry;
        let head = Head { kind, name, link, mode, mtime: 7, size: data.len() as u64 };
        append(&mut out, &head, data).expect("appended");
    }
    out.into_inner().expect("ended")
}

fn feed(bytes: &[u8], ends: bool, target: Target) -> anyhow::Result<Copied> {
    let (to, from) = pipe();
    let bytes = bytes.to_vec();
    let fed = std::thread::spawn(move || {
        for piece in bytes.chunks(1000) {
            let _ = to.blocking_send(Ok(Bytes::copy_from_slice(piece)));
        }
        if ends {
            let _ = to.blocking_send(Ok(Bytes::new()));
        }
    });
    let done = unpack(In::new(from), &target, &ProgressBar::hidden());
    fed.join().expect("no panic");
    done
}

fn into(dir: &Path, entries: &[One<'_>]) -> anyhow::Result<Copied> {
    feed(&archive(entries), true, Target::Directory(open(dir).expect("there")))
}

/// A directory with a destination in it, and what must not be touched beside it.
fn beside() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("to");
    std::fs::create_dir(&to).expect("made");
    std::fs::create_dir(dir.path().join("else")).expect("made");
    std::fs::write(dir.path().join("else/f"), "mine").expect("written");
    (dir, to)
}

fn untouched(dir: &Path) {
    let names = |path: &Path| {
        let mut names: Vec<_> = std::fs::read_dir(path)
            .expect("there")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(dir), ["else", "to"]);
    assert_eq!(names(&dir.join("else")), ["f"]);
    assert_eq!(std::fs::read(dir.join("else/f")).expect("there"), b"mine");
    for entry in std::fs::read_dir(dir.join("to")).expect("there") {
        let name = entry.expect("an entry").file_name();
        assert!(!name.to_string_lossy().starts_with(".sandkeep"), "{name:?} is left");
    }
}

#[test]
fn names_that_lead_out_are_refused() {
    let absolute = std::env::temp_dir().join("sandkeep-never");
    let absolute = absolute.to_str().expect("text").as_bytes();
    for name in [&b"../else/f"[..], b"a/../../else/f", b"..", absolute, b"/../else/f"] {
        for entry in [file(name, b"x"), one(EntryType::Directory, name), link(name, b"a")] {
            let (dir, to) = beside();
            let error = into(&to, &[entry]).expect_err("refused");
            assert!(format!("{error:#}").starts_with("cannot unpack "), "{error:#}");
            untouched(dir.path());
        }
    }
    assert!(!Path::new("/tmp/sandkeep-never").exists());
}

#[test]
fn links_are_kept_inside_and_never_followed() {
    let (dir, to) = beside();
    let done = into(
        &to,
        &[
            link(b"abs", b"/etc/passwd"),
            link(b"up", b"../else"),
            link(b"deep/er/up", b"../../../else"),
            file(b"real", b"1"),
            link(b"fine", b"real"),
            link(b"deep/fine", b"../real"),
        ],
    )
    .expect("unpacked");
    assert_eq!((done.entries, done.left_out), (3, 3));
    assert_eq!(std::fs::read(to.join("deep/fine")).expect("there"), b"1");
    assert!(std::fs::symlink_metadata(to.join("up")).is_err());
    untouched(dir.path());

    // Nor one that leads out by way of another one, whichever of them comes first.
    let (dir, to) = beside();
    let tricks = [
        link(b"s", b"."),
        link(b"t", b"s/../else"),
        link(b"v", b"s/s/s/../../.."),
        link(b"d/here", b"."),
        link(b"d/up", b"here/.."),
        link(b"d/out", b".././d//here/../../else"),
        link(b"e/late", b"later/../../else"),
        link(b"e/later", b".."),
        link(b"e/fine", b"./.././d/here"),
    ];
    let done = into(&to, &tricks).expect("unpacked");
    assert_eq!((done.entries, done.left_out), (4, 5));
    for name in ["t", "v", "d/up", "d/out", "e/late"] {
        assert!(std::fs::symlink_metadata(to.join(name)).is_err(), "{name}");
    }
    for name in ["s", "d/here", "e/later", "e/fine"] {
        let led = std::fs::canonicalize(to.join(name)).expect("there");
        assert!(led.starts_with(std::fs::canonicalize(&to).expect("there")), "{name}");
    }
    untouched(dir.path());

    // A link is neither written through nor linked through.
    for entry in [file(b"d/here/f", b"x"), link(b"d/here/up", b"..")] {
        into(&to, &[entry]).expect_err("not followed");
    }
    assert!(std::fs::symlink_metadata(to.join("d/up")).is_err());
    untouched(dir.path());

    // Nor one that was here before.
    let (dir, to) = beside();
    symlink(dir.path().join("else"), to.join("d")).expect("made");
    for entry in [file(b"d/f", b"x"), one(EntryType::Directory, b"d/"), file(b"d/new/f", b"x")] {
        let error = into(&to, &[entry]).expect_err("not followed");
        assert!(format!("{error:#}").contains("a link here"), "{error:#}");
    }
    untouched(dir.path());
    // A file in its place takes its place.
    into(&to, &[file(b"d", b"x")]).expect("unpacked");
    assert!(std::fs::symlink_metadata(to.join("d")).expect("there").is_file());
    untouched(dir.path());
}

#[test]
fn what_is_no_file_is_refused() {
    for kind in [
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Link,
        EntryType::GNUSparse,
        EntryType::new(b'Z'),
    ] {
        let (dir, to) = beside();
        let entry = One { link: b"../else/f", ..one(kind, b"x") };
        into(&to, &[entry]).expect_err("refused");
        assert!(std::fs::symlink_metadata(to.join("x")).is_err());
        untouched(dir.path());
    }
}

#[test]
fn modes_have_no_special_bits_and_times_are_kept() {
    let (dir, to) = beside();
    let sly = One { mode: 0o6755, ..file(b"f", b"abc") };
    let shut = One { mode: 0o000, ..one(EntryType::Directory, b"d/") };
    let done = into(&to, &[sly, shut, file(b"d/g", b"")]).expect("unpacked");
    assert_eq!((done.entries, done.bytes), (3, 3));
    let meta = std::fs::metadata(to.join("f")).expect("there");
    assert_eq!((meta.mode() & 0o7700, meta.mtime()), (0o700, 7));
    assert!(to.join("d/g").is_file());
    untouched(dir.path());
}

#[test]
fn half_an_archive_is_an_error_and_leaves_no_half_files() {
    let whole = archive(&[file(b"a", &[1; 3000]), file(b"b", &[2; 3000])]);
    for length in [0, 100, 512, 2000, 512 + 3072, 512 + 3072 + 512, whole.len() - 1024] {
        for ends in [true, false] {
            let (dir, to) = beside();
            let target = Target::Directory(open(&to).expect("there"));
            feed(&whole[..length], ends, target).expect_err("cut short");
            for name in ["a", "b"] {
                let there = std::fs::metadata(to.join(name)).map(|meta| meta.len());
                assert!(there.is_err() || there.is_ok_and(|n| n == 3000), "{name} at {length}");
            }
            untouched(dir.path());
        }
    }
    // Whole, but nobody said that it is.
    let (_dir, to) = beside();
    feed(&whole, false, Target::Directory(open(&to).expect("there"))).expect_err("no end");
}

#[test]
fn a_file_is_one_file() {
    let (dir, to) = beside();
    let target = || Target::File(open(&to).expect("there"), b"own".to_vec());
    feed(&archive(&[file(b"../else/f", b"x")]), true, target()).expect("its name is ours");
    assert_eq!(std::fs::read(to.join("own")).expect("there"), b"x");
    for entries in [
        vec![],
        vec![link(b"a", b"b")],
        vec![one(EntryType::Directory, b"d/")],
        vec![file(b"a", b""), file(b"b", b"")],
    ] {
        feed(&archive(&entries), true, target()).expect_err("refused");
    }
    untouched(dir.path());
}

#[test]
fn names_of_any_bytes_and_length_come_through() {
    use std::os::unix::ffi::OsStrExt as _;
    let (dir, to) = beside();
    let long = [&[b'd'; 255][..], &[b'e'; 255], &[b'f'; 255]].join(&b'/');
    let names = [&b"\xff\xfe\n"[..], b"-rf", b"a\\x41", b" ", &long];
    let entries: Vec<One<'_>> = names.iter().map(|name| file(name, name)).collect();
    into(&to, &entries).expect("unpacked");
    for name in names {
        let path = to.join(std::ffi::OsStr::from_bytes(name));
        assert_eq!(std::fs::read(path).expect("there"), name);
    }
    untouched(dir.path());
}

#[test]
fn a_name_without_end_is_no_name() {
    let (dir, to) = beside();
    let long =
        One { data: &vec![b'a'; 300 << 10], ..one(EntryType::GNULongName, b"././@LongLink") };
    let error = into(&to, &[long, file(b"a", b"")]).expect_err("refused");
    assert!(format!("{error:#}").contains("too long"), "{error:#}");
    untouched(dir.path());
}
