//! Limits: bytes, entries, sizes, numbers.

use super::super::Room;
use super::super::fds::FDS_MAX;
use super::super::room::FILE_MAX;
use super::*;

#[test]
fn bytes_run_out_and_come_back() {
    let mut sys = Sys::new();
    sys.wasi.room = Room::of(10, 100);
    let fd = sys.open("f", CREATE).expect("create");
    assert_eq!(sys.write(fd, b"0123456"), Ok(7));
    assert_eq!(sys.write(fd, b"789abc"), Ok(3), "as many as there is room for");
    assert!(!sys.wasi.room.refused);
    assert_eq!(sys.write(fd, b"x"), Err(Errno::NOSPC));
    sys.seek(fd, 0, 0).expect("seek");
    assert_eq!(sys.write(fd, b"over"), Ok(4), "what is there can be written over");
    assert_eq!(sys.wasi.fd_filestat_set_size(&mut Mem(&mut sys.mem), fd, 100), Err(Errno::NOSPC));
    assert_eq!(sys.wasi.fd_allocate(&mut Mem(&mut sys.mem), fd, 0, 11), Err(Errno::NOSPC));
    sys.wasi.fd_filestat_set_size(&mut Mem(&mut sys.mem), fd, 4).expect("it shrinks");
    assert_eq!(sys.wasi.room.bytes, 6);
    sys.open("f", TRUNCATE).expect("open");
    assert_eq!(sys.wasi.room.bytes, 10);
    sys.seek(fd, 0, 0).expect("seek");
    sys.write(fd, b"12345").expect("write");
    sys.unlink("f").expect("unlink");
    assert_eq!(sys.wasi.room, Room { refused: true, ..Room::of(10, 100) });
}

#[test]
fn a_hole_takes_its_size() {
    let mut sys = Sys::new();
    sys.wasi.room = Room::of(100, 100);
    let fd = sys.open("f", CREATE).expect("create");
    sys.seek(fd, 200, 0).expect("seek");
    assert_eq!(sys.write(fd, b"x"), Err(Errno::NOSPC));
    sys.seek(fd, 99, 0).expect("seek");
    assert_eq!(sys.write(fd, b"xy"), Ok(1));
    assert_eq!(sys.wasi.room.bytes, 0);
}

#[test]
fn entries_run_out_and_come_back() {
    let mut sys = Sys::new();
    sys.wasi.room = Room::of(100, 4);
    sys.open("f", CREATE).expect("create");
    sys.mkdir("d").expect("mkdir");
    sys.symlink("f", "s").expect("symlink");
    sys.link("f", "h").expect("link");
    for error in
        [sys.open("g", CREATE).map(drop), sys.mkdir("e"), sys.symlink("f", "t"), sys.link("f", "i")]
    {
        assert_eq!(error, Err(Errno::NOSPC));
    }
    sys.open("f", CREATE).expect("it is there already");
    assert_eq!(sys.mkdir("d"), Err(Errno::NOSPC));
    assert!(sys.wasi.room.refused);
    sys.rmdir("d").expect("rmdir");
    sys.rename("f", "s").expect("it replaces another");
    assert_eq!(sys.wasi.room.entries, 2);
    sys.mkdir("d").expect("mkdir");
    assert_eq!(sys.mkdir("d"), Err(Errno::EXIST));
    assert_eq!(sys.wasi.room.entries, 1, "what failed takes nothing");
}

#[test]
fn the_scratch_directory_has_its_own_limits() {
    let mut sys = Sys::new();
    sys.wasi.room = Room::of(0, 0);
    let fd = sys.open_as(TMP, b"f", CREATE, rights::ALL, 0).expect("create");
    assert_eq!(sys.write(fd, b"x"), Ok(1));
    assert_eq!(sys.open("f", CREATE), Err(Errno::NOSPC));
}

#[test]
fn a_file_has_a_largest_size() {
    let mut sys = Sys::new();
    let fd = sys.open("f", CREATE).expect("create");
    sys.seek(fd, FILE_MAX as i64 - 1, 0).expect("seek");
    assert_eq!(sys.write(fd, b"xy"), Ok(1));
    assert_eq!(sys.write(fd, b"y"), Err(Errno::FBIG));
    let mut mem = Mem(&mut sys.mem);
    assert_eq!(sys.wasi.fd_filestat_set_size(&mut mem, fd, FILE_MAX + 1), Err(Errno::FBIG));
    assert_eq!(sys.wasi.fd_allocate(&mut mem, fd, u64::MAX, 2), Err(Errno::FBIG));
}

#[test]
fn numbers_run_out() {
    let mut sys = Sys::new();
    sys.open("f", CREATE).expect("create");
    let mut last = 0;
    while let Ok(fd) = sys.read_only(b"f") {
        last = fd;
    }
    assert_eq!(last as usize, FDS_MAX - 1);
    assert_eq!(sys.open("never", CREATE), Err(Errno::MFILE));
    assert!(!sys.at("workspace/never").exists(), "what cannot be answered is not made");
    sys.close(20).expect("close");
    assert_eq!(sys.read_only(b"f"), Ok(20));
}
