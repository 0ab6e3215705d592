//! Paths as they stand in URLs.

use super::url_path;

#[test]
fn paths_are_resolved_and_escaped() {
    for (path, url) in [
        (&b"a/b"[..], "a/b"),
        (b"/workspace/a", "a"),
        (b"/workspace", ""),
        (b"", ""),
        (b".", ""),
        (b"//workspace//a/./b/../c/", "a/c"),
        (b"a/../../workspace/b", "b"),
        (b"a b?c#d%e\n", "a%20b%3Fc%23d%25e%0A"),
        (b"\xff\xfe", "%FF%FE"),
        (b"..a/...", "..a/..."),
        (b"workspace/a", "workspace/a"),
    ] {
        assert_eq!(url_path(path).unwrap(), url, "{path:?}");
    }
    for path in [&b"/etc/passwd"[..], b"..", b"../..", b"a/../../b", b"/", b"/workspacex/a"] {
        assert!(url_path(path).is_err(), "{path:?}");
    }
}
