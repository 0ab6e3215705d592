use super::*;
use rustix::fs::OFlags;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// In memory where that is possible: some disks take milliseconds for each directory.
pub(crate) fn quick_dir() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    let place = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(place).unwrap()
}

/// A chain of directories named `d`, deeper than any path can say.
pub(crate) fn chain(top: &Path, depth: usize) -> File {
    let mut here = File::open(top).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&here, "d", Mode::from_raw_mode(0o755)).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        here = rustix::fs::openat(&here, "d", flags, Mode::empty()).unwrap().into();
    }
    here
}

#[test]
fn deep_wide_and_odd_trees_go() {
    let outside = quick_dir();
    fs::write(outside.path().join("canary"), "alive").unwrap();
    let place = quick_dir();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    chain(&tree, 10_000);
    for n in 0..5000 {
        fs::create_dir(tree.join(format!("w{n}"))).unwrap();
        fs::write(tree.join(format!("f{n}")), "").unwrap();
    }
    for name in [&b"new\nline"[..], b"\xff\xfe", b"-rf", b"...", &[b'n'; 255]] {
        fs::create_dir(tree.join(std::ffi::OsStr::from_bytes(name))).unwrap();
    }
    fs::create_dir_all(tree.join("locked/in")).unwrap();
    fs::set_permissions(tree.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    symlink(outside.path(), tree.join("link")).unwrap();
    symlink(outside.path().join("canary"), tree.join("w1/link")).unwrap();
    symlink("/no/such", tree.join("dangling")).unwrap();
    empty(File::open(place.path()).unwrap().as_fd()).unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(outside.path().join("canary")).unwrap(), "alive");
}

#[test]
fn what_is_thrown_is_out_of_reach_at_once_and_gone_soon() {
    let place = quick_dir();
    let trash_dir = place.path().join("trash");
    fs::create_dir(&trash_dir).unwrap();
    fs::create_dir_all(place.path().join("a/b/c")).unwrap();
    fs::write(place.path().join("file"), "x").unwrap();
    let here = File::open(place.path()).unwrap();
    let trash = Trash::new(File::open(&trash_dir).unwrap().into()).unwrap();
    for name in ["a", "file", "not-there"] {
        trash.throw(&here, name).unwrap();
        assert!(!place.path().join(name).exists());
    }
    for _ in 0..1000 {
        if fs::read_dir(&trash_dir).unwrap().count() == 0 {
            return;
        }
        trash.sweep();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the trash is never empty");
}
