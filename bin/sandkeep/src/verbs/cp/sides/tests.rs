//! What is here and what is in a sandbox.

use super::{Side, is_contents, is_directory, joined, parts, side};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

fn remote(text: &[u8]) -> Option<(String, Vec<u8>)> {
    match side(OsStr::from_bytes(text)) {
        Side::Remote(id, path) => Some((id.to_string(), path)),
        Side::Local(path) => {
            assert_eq!(path.as_os_str().as_bytes(), text);
            None
        }
        Side::Stdio => panic!("{text:?} is no dash"),
    }
}

#[test]
fn sides() {
    assert_eq!(side(OsStr::new("-")), Side::Stdio);
    for (text, id, path) in [
        (&b"notes:/workspace/a"[..], "notes", &b"/workspace/a"[..]),
        (b"notes:", "notes", b""),
        (b"notes:a:b", "notes", b"a:b"),
        (b"n.o_t-es:-", "n.o_t-es", b"-"),
        (b"n:\xff\n", "n", b"\xff\n"),
    ] {
        assert_eq!(remote(text), Some((id.to_owned(), path.to_vec())), "{text:?}");
    }
    for text in [
        &b"a"[..],
        b"",
        b"./a:b",
        b"/a:b",
        b"a/b:c",
        b".a:b",
        b"..:b",
        b":a",
        b"-a:b",
        b"admin:x",
        b"\xff:x",
        b"a b:x",
        b"--",
    ] {
        assert_eq!(remote(text), None, "{text:?}");
    }
}

#[test]
fn directories_by_their_spelling() {
    for path in [&b""[..], b".", b"a/.", b"/."] {
        assert!(is_contents(path) && is_directory(path), "{path:?}");
    }
    for path in [&b"a/"[..], b"/", b"..", b"a/.."] {
        assert!(!is_contents(path) && is_directory(path), "{path:?}");
    }
    for path in [&b"a"[..], b"a.", b"a/..b", b"/a"] {
        assert!(!is_contents(path) && !is_directory(path), "{path:?}");
    }
}

#[test]
fn paths_of_a_workspace() {
    for (path, whole) in [
        (&b""[..], &b"/workspace"[..]),
        (b"a/./b//c/", b"/workspace/a/b/c"),
        (b"/workspace/../workspace/a", b"/workspace/a"),
        (b"a/..", b"/workspace"),
        (b"\xff", b"/workspace/\xff"),
    ] {
        assert_eq!(joined(&parts(path).expect("inside")), whole, "{path:?}");
    }
    for path in [&b"/"[..], b"..", b"/etc", b"a/../..", b"/workspaces"] {
        assert_eq!(parts(path), None, "{path:?}");
    }
}
