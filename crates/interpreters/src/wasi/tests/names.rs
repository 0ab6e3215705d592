//! Names of every kind, and directories.

use super::super::descriptors::NAMES_MAX;
use super::*;

#[test]
fn every_name_that_the_host_can_have_survives() {
    let mut sys = Sys::new();
    let mut names: Vec<Vec<u8>> = vec![
        b"with space".to_vec(),
        b"new\nline".to_vec(),
        b"\xff\xfe\x80".to_vec(),
        b"-rf".to_vec(),
        "žluťoučký".as_bytes().to_vec(),
        b"...".to_vec(),
        vec![b'x'; 255],
    ];
    for name in &names {
        let fd = sys.open_as(WORKSPACE, name, CREATE, rights::ALL, 0).expect("create");
        sys.write(fd, b"x").expect("write");
        sys.close(fd).expect("close");
        let fd = sys.read_only(name).expect("open");
        assert_eq!(sys.read(fd, 5).expect("read"), b"x");
        sys.close(fd).expect("close");
    }
    names.extend([b".".to_vec(), b"..".to_vec()]);
    names.sort();
    let dir = sys.open(".", DIRECTORY).expect("open");
    assert_eq!(sys.list(dir, 65536).expect("list"), names);
    assert_eq!(sys.list(dir, 300).expect("list"), names, "in small pieces");
    let error = sys.open_as(WORKSPACE, &[b'x'; 256], CREATE, rights::ALL, 0);
    assert_eq!(error, Err(Errno::NAMETOOLONG));
    let error = sys.open_as(WORKSPACE, &[b'/'; 5000], 0, rights::READ, 0);
    assert_eq!(error, Err(Errno::NAMETOOLONG));
    let error = sys.open_as(WORKSPACE, b"nul\0name", CREATE, rights::ALL, 0);
    assert_eq!(error, Err(Errno::INVAL));
    assert_eq!(sys.open_as(WORKSPACE, b"", 0, rights::READ, 0), Err(Errno::NOENT));
}

#[test]
fn a_large_directory_is_listed_whole() {
    let mut sys = Sys::new();
    for index in 0..3000 {
        std::fs::write(sys.at(&format!("workspace/{index}")), "").expect("write");
    }
    let mut most = 0;
    for _ in 0..100 {
        let dir = sys.open(".", DIRECTORY).expect("open");
        assert_eq!(sys.list(dir, 40_000).expect("list").len(), 3002);
        most = most.max(sys.wasi.fds.names());
    }
    assert!((3002..=NAMES_MAX).contains(&most), "{most} names are kept");
}

#[test]
fn directories_are_made_moved_and_removed() {
    let mut sys = Sys::new();
    sys.mkdir("a/").expect("a slash is fine");
    assert_eq!(sys.mkdir("a"), Err(Errno::EXIST));
    assert_eq!(sys.mkdir("."), Err(Errno::EXIST));
    assert_eq!(sys.mkdir("x/y"), Err(Errno::NOENT));
    sys.mkdir("a/b").expect("mkdir");
    assert_eq!(sys.rmdir("a"), Err(Errno::NOTEMPTY));
    assert_eq!(sys.rename("a", "a/b/c"), Err(Errno::INVAL), "into itself");
    sys.rename("a/b/", "c").expect("rename");
    sys.rmdir("a").expect("rmdir");
    assert_eq!(sys.unlink("c"), Err(Errno::ISDIR));
    assert_eq!(sys.rmdir("c/."), Err(Errno::INVAL));
    sys.open("f", CREATE).expect("create");
    assert_eq!(sys.open("f", CREATE | EXCLUSIVE), Err(Errno::EXIST));
    assert_eq!(sys.open("f", DIRECTORY), Err(Errno::NOTDIR));
    assert_eq!(sys.open("c", CREATE), Err(Errno::ISDIR));
    assert_eq!(sys.rename("f/", "g"), Err(Errno::NOTDIR));
    assert_eq!(sys.unlink("f/"), Err(Errno::NOTDIR));
    let mut mem = Mem(&mut sys.mem);
    mem.put(PATH, b"f").expect("it fits");
    mem.put(OTHER, b"f").expect("it fits");
    let moved = sys.wasi.path_rename(&mut mem, WORKSPACE, PATH, 1, TMP, OTHER, 1);
    assert_eq!(moved, Err(Errno::XDEV));
}

#[test]
fn times_can_be_set() {
    let mut sys = Sys::new();
    sys.open("f", CREATE).expect("create");
    let (at, len) = sys.put(PATH, b"f");
    let mut mem = Mem(&mut sys.mem);
    let second = 1_000_000_000;
    sys.wasi
        .path_filestat_set_times(&mut mem, WORKSPACE, 1, at, len, 5 * second, 7 * second, 1 | 4)
        .expect("utimes");
    let modified = std::fs::metadata(sys.at("workspace/f")).expect("stat").modified();
    let since = modified.expect("a time").duration_since(std::time::UNIX_EPOCH);
    assert_eq!(since.expect("after").as_secs(), 7);
    let mut mem = Mem(&mut sys.mem);
    let both = sys.wasi.path_filestat_set_times(&mut mem, WORKSPACE, 1, at, len, 0, 0, 3);
    assert_eq!(both, Err(Errno::INVAL));
}
