//! What is packed and what is left out.

use super::{stays_inside, tree};
use crate::verbs::cp::pipe::{In, Out, pipe};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use tar::EntryType;

#[test]
fn links_by_their_text() {
    for (above, target, inside) in [
        (0, &b"a"[..], true),
        (0, b"..", false),
        (1, b"..", true),
        (1, b"../..", false),
        (0, b"a/../b", true),
        (0, b"a/../../b", false),
        (3, b"/workspace/a", true),
        (3, b"/workspace", true),
        (3, b"/workspace/..", false),
        (3, b"/workspacex", false),
        (3, b"/etc/passwd", false),
        (0, b"", true),
    ] {
        assert_eq!(stays_inside(above, target), inside, "{above} {target:?}");
    }
}

#[test]
fn a_tree_of_hostile_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let name = |bytes: &[u8]| dir.path().join(OsStr::from_bytes(bytes));
    let long = [b'n'; 255];
    for bytes in [&b"-rf"[..], b"a\nb", b"\xff\xfe", b" ", b"\\x41", &long] {
        std::fs::write(name(bytes), bytes).expect("written");
    }
    std::fs::create_dir(name(b"d")).expect("made");
    let far = [b'l'; 200];
    symlink(OsStr::from_bytes(&far), name(b"d/far")).expect("made");
    symlink("../..", name(b"d/out")).expect("made");
    symlink("/etc/passwd", name(b"out")).expect("made");
    rustix::fs::mkfifoat(rustix::fs::CWD, name(b"fifo"), 0o600.into()).expect("made");

    let (to, from) = pipe();
    let path = dir.path().to_owned();
    let packed = std::thread::spawn(move || tree(&path, 0, Out::new(to)).expect("packed"));
    let read = std::thread::spawn(move || {
        let mut archive = tar::Archive::new(In::new(from));
        let mut found = BTreeMap::new();
        // The sender's end is no end of ours; two empty blocks are the archive's.
        for entry in archive.entries().expect("an archive") {
            let entry = entry.expect("an entry");
            let link = entry.link_name_bytes().map(|l| l.into_owned());
            found.insert(entry.path_bytes().into_owned(), (entry.header().entry_type(), link));
        }
        found
    });
    let (copied, found) = (packed.join().expect("no panic"), read.join().expect("no panic"));
    assert_eq!((copied.entries, copied.left_out), (8, 3));
    assert_eq!(found.len(), 8);
    for bytes in [&b"-rf"[..], b"a\nb", b"\xff\xfe", b" ", b"\\x41", &long] {
        assert_eq!(found[bytes].0, EntryType::Regular, "{bytes:?}");
    }
    assert_eq!(found[&b"d/"[..]].0, EntryType::Directory);
    assert_eq!(found[&b"d/far"[..]].1.as_deref(), Some(&far[..]));
}
