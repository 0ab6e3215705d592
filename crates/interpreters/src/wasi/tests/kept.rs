//! Open files over a restore.

use super::super::fds::APPEND;
use super::*;

#[test]
fn a_file_is_read_on_from_where_it_stood() {
    let mut sys = Sys::new();
    let fd = sys.open("f", CREATE).expect("create");
    sys.write(fd, b"0123456789").expect("write");
    sys.seek(fd, 4, 0).expect("seek");
    let mut sys = sys.restored();
    assert_eq!(sys.read(fd, 3).expect("read"), b"456");
    sys.write(fd, b"xy").expect("write");
    assert_eq!(std::fs::read_to_string(sys.at("workspace/f")).expect("read"), "0123456xy9");
}

#[test]
fn a_file_of_any_name_is_found_again() {
    let mut sys = Sys::new();
    for name in [b"plain".as_slice(), "žluť".as_bytes(), b"\xff\n\x80"] {
        let fd = sys.open_as(WORKSPACE, name, CREATE, rights::ALL, 0).expect("create");
        sys.write(fd, name).expect("write");
        sys = sys.restored();
        sys.seek(fd, 0, 0).expect("seek");
        assert_eq!(sys.read(fd, 100).expect("read"), name);
    }
}

#[test]
fn what_opened_with_create_and_truncate_is_not_emptied_again() {
    let mut sys = Sys::new();
    let all = rights::ALL;
    let fd = sys.open_as(WORKSPACE, b"f", CREATE | TRUNCATE | EXCLUSIVE, all, 0).expect("create");
    sys.write(fd, b"kept").expect("write");
    let mut sys = sys.restored();
    sys.seek(fd, 0, 0).expect("seek");
    assert_eq!(sys.read(fd, 10).expect("read"), b"kept");
}

#[test]
fn appending_goes_on() {
    let mut sys = Sys::new();
    let rights = rights::WRITE;
    let fd = sys.open_as(WORKSPACE, b"f", CREATE, rights, APPEND.into()).expect("create");
    sys.write(fd, b"a").expect("write");
    let mut sys = sys.restored();
    std::fs::write(sys.at("workspace/f"), "abc").expect("another writes");
    sys.write(fd, b"d").expect("write");
    assert_eq!(std::fs::read_to_string(sys.at("workspace/f")).expect("read"), "abcd");
    assert_eq!(sys.read(fd, 1), Err(Errno::BADF), "it was opened for writing only");
}

#[test]
fn numbers_stay_whatever_was_closed_or_moved() {
    let mut sys = Sys::new();
    let one = sys.open("one", CREATE).expect("create");
    let two = sys.open("two", CREATE).expect("create");
    let three = sys.open("three", CREATE).expect("create");
    sys.write(three, b"3").expect("write");
    sys.close(one).expect("close");
    sys.wasi.fd_renumber(&mut Mem(&mut sys.mem), three, 0).expect("renumber");
    // A libc looks for the places once.
    assert_eq!(sys.close(ROOT), Err(Errno::PERM));
    let moved = sys.wasi.fd_renumber(&mut Mem(&mut sys.mem), two, ROOT);
    assert_eq!(moved, Err(Errno::PERM));
    let mut sys = sys.restored();
    assert_eq!(sys.read(one, 1), Err(Errno::BADF));
    assert_eq!(sys.read(three, 1), Err(Errno::BADF));
    sys.seek(0, 0, 0).expect("it is the file");
    assert_eq!(sys.read(0, 1).expect("read"), b"3");
    sys.write(two, b"2").expect("write");
    assert_eq!(std::fs::read_to_string(sys.at("workspace/two")).expect("read"), "2");
    assert_eq!(sys.open("four", CREATE), Ok(one), "the lowest that is free");
}

#[test]
fn a_file_that_is_gone_is_never_another() {
    let mut sys = Sys::new();
    let gone = sys.open("gone", CREATE).expect("create");
    let replaced = sys.open("replaced", CREATE).expect("create");
    let became = sys.open("became", CREATE).expect("create");
    sys.write(replaced, b"old").expect("write");
    std::fs::remove_file(sys.at("workspace/gone")).expect("remove");
    std::fs::write(sys.at("workspace/new"), "another").expect("write");
    std::fs::rename(sys.at("workspace/new"), sys.at("workspace/replaced")).expect("rename");
    std::fs::remove_file(sys.at("workspace/became")).expect("remove");
    std::fs::create_dir(sys.at("workspace/became")).expect("mkdir");
    let mut sys = sys.restored();
    for fd in [gone, replaced, became] {
        assert_eq!(sys.read(fd, 1), Err(Errno::IO), "{fd}");
        assert_eq!(sys.write(fd, b"x"), Err(Errno::IO), "{fd}");
    }
    assert_eq!(std::fs::read_to_string(sys.at("workspace/replaced")).expect("read"), "another");
    // It stays so over the next restore, and the number can be given up.
    let mut sys = sys.restored();
    assert_eq!(sys.read(gone, 1), Err(Errno::IO));
    sys.close(gone).expect("close");
    assert_eq!(sys.open("next", CREATE), Ok(gone));
}

/// File systems give the number of a file that is gone to the next one.
#[test]
fn a_file_made_in_place_of_another_is_another() {
    let mut sys = Sys::new();
    let fd = sys.open("f", CREATE).expect("create");
    sys.write(fd, b"old").expect("write");
    let saved = sys.wasi.save();
    sys.close(fd).expect("close");
    std::fs::remove_file(sys.at("workspace/f")).expect("remove");
    std::fs::write(sys.at("workspace/f"), "new").expect("write");
    sys.wasi = Wasi::restore(places(sys.dir.path()), &saved, Clocks::resume(0, 0));
    assert_eq!(sys.read(fd, 1), Err(Errno::IO));
}

#[test]
fn the_guest_s_own_moves_are_followed() {
    let mut sys = Sys::new();
    sys.mkdir("a").expect("mkdir");
    let file = sys.open("a/f", CREATE).expect("create");
    let dir = sys.open("a", DIRECTORY).expect("open");
    sys.write(file, b"x").expect("write");
    sys.rename("a", "b").expect("rename");
    sys.rename("b/f", "b/g").expect("rename");
    let mut sys = sys.restored();
    sys.seek(file, 0, 0).expect("seek");
    assert_eq!(sys.read(file, 1).expect("read"), b"x");
    let fd = sys.open_as(dir, b"g", 0, rights::READ, 0).expect("from the directory");
    assert_eq!(sys.read(fd, 1).expect("read"), b"x");
}

#[test]
fn a_move_by_another_way_is_followed() {
    let mut sys = Sys::new();
    for dir in ["a", "a/b", "a/b/dir"] {
        sys.mkdir(dir).expect("mkdir");
    }
    sys.symlink("a/b", "t").expect("symlink");
    let file = sys.open("t/f", CREATE).expect("create");
    sys.write(file, b"x").expect("write");
    let dir = sys.open("t/dir", DIRECTORY).expect("open");
    let linked = sys.open("t/linked", CREATE).expect("create");
    sys.write(linked, b"y").expect("write");
    sys.link("t/linked", "further").expect("link");
    sys.rename("a/b/f", "a/b/f2").expect("rename");
    sys.rename("a/b/dir", "a/dir2").expect("rename");
    // The name that it was opened by stays.
    sys.rename("further", "gone").expect("rename");
    sys.unlink("gone").expect("unlink");
    let mut sys = sys.restored();
    for (fd, text) in [(file, b"x"), (linked, b"y")] {
        sys.seek(fd, 0, 0).expect("seek");
        assert_eq!(sys.read(fd, 1).expect("read"), text);
    }
    assert_eq!(sys.list(dir, 4096).expect("list").len(), 2);
}

#[test]
fn a_directory_is_read_on_from_where_it_stood() {
    let mut sys = Sys::new();
    for name in ["c", "a", "b"] {
        sys.open(name, CREATE).expect("create");
    }
    let dir = sys.open(".", DIRECTORY).expect("open");
    let mut mem = Mem(&mut sys.mem);
    sys.wasi.fd_readdir(&mut mem, dir, BUFFER, 24 + 1 + 24 + 2, 0, ANSWER).expect("readdir");
    let mut sys = sys.restored();
    let mut mem = Mem(&mut sys.mem);
    sys.wasi.fd_readdir(&mut mem, dir, BUFFER, 25, 3, ANSWER).expect("readdir");
    assert_eq!(sys.mem[BUFFER as usize + 24], b'b', "the fourth by name");
}

#[test]
fn files_of_the_engine_are_found_again_wherever_they_lie() {
    let mut sys = Sys::new();
    let fd = sys.open_as(LIB, b"module", 0, rights::READING, 0).expect("open");
    sys.read(fd, 2).expect("read");
    // Another machine, or the engine installed anew.
    std::fs::remove_file(sys.at("lib/module")).expect("remove");
    std::fs::write(sys.at("lib/module"), "module").expect("write");
    let mut sys = sys.restored();
    assert_eq!(sys.read(fd, 10).expect("read"), b"dule");
}

#[test]
fn standard_input_is_that_of_the_execution() {
    let mut sys = Sys::new();
    assert_eq!(sys.read(0, 10).expect("read"), b"");
    sys.wasi.set_stdin(b"hello".to_vec());
    assert_eq!(sys.read(0, 2).expect("read"), b"he");
    assert_eq!(sys.read(0, 10).expect("read"), b"llo");
    assert_eq!(sys.read(0, 10).expect("read"), b"");
    assert_eq!(sys.seek(0, 0, 0), Err(Errno::SPIPE));
    let mut sys = sys.restored();
    sys.wasi.set_stdin(b"next".to_vec());
    assert_eq!(sys.read(0, 10).expect("read"), b"next");
}

#[test]
fn time_goes_on() {
    let saved = 10u64.pow(15);
    let clocks = Clocks::resume(saved, 5);
    let mut last = clocks.monotonic();
    assert!(last >= saved && clocks.cpu_total() >= 5);
    for _ in 0..1000 {
        let now = clocks.monotonic();
        assert!(now >= last);
        last = now;
    }
}
