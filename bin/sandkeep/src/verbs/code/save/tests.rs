//! Files of rich results.

use super::{Directory, extension};
use std::collections::BTreeMap;
use types::RichResult;

#[test]
fn names_come_from_known_types_alone() {
    for (mime, name) in [
        ("image/png", "png"),
        ("image/svg+xml", "svg"),
        ("text/html; charset=utf-8", "html"),
        ("application/vnd.plotly.v1+json", "json"),
        ("application/../../etc/passwd", "passwd"),
        ("image/../x", "x"),
        ("", "bin"),
        ("a/b.c", "bin"),
        ("a/\0", "bin"),
        ("a/abcdefghijklmnopq", "bin"),
    ] {
        assert_eq!(extension(mime), name, "{mime:?}");
    }
}

#[test]
fn nothing_is_replaced_and_forms_stay_together() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("result-1.svg"), "mine").expect("written");
    let mime = [("image/png", "aGk="), ("image/svg+xml", "<svg/>"), ("text/plain", "x")];
    let mime: BTreeMap<_, _> = mime.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let result = RichResult { mime, ..RichResult::default() };
    let kept = Directory::new(dir.path().to_owned()).expect("there").keep(&result);
    let name = |name| dir.path().join(name);
    let paths = ["result-2.png", "result-2.svg"].map(|n| name(n).display().to_string());
    assert_eq!(kept.expect("written"), paths);
    assert_eq!(std::fs::read(name("result-2.png")).expect("there"), b"hi");
    assert_eq!(std::fs::read(name("result-2.svg")).expect("there"), b"<svg/>");
    assert_eq!(std::fs::read(name("result-1.svg")).expect("there"), b"mine");
    assert!(!name("result-1.png").exists());
}
