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
fn a_move_that_does_nothing_gives_nothing_back() {
    let mut sys = Sys::new();
    sys.mkdir("d").expect("mkdir");
    sys.mkdir("d/sub").expect("mkdir");
    sys.symlink("d", "relative").expect("symlink");
    sys.symlink("/workspace/d", "absolute").expect("symlink");
    let fd = sys.open("d/f", CREATE).expect("create");
    sys.write(fd, &[1; 100]).expect("write");
    sys.link("d/f", "hard").expect("link");
    sys.wasi.room = Room::of(10, 10);
    for (from, to) in [
        ("d/f", "relative/f"),
        ("relative/f", "absolute/f"),
        ("d/f", "d/./f"),
        ("d/f", "hard"),
        ("d/sub", "relative/sub"),
    ] {
        sys.rename(from, to).expect("rename");
        assert!(sys.at("workspace").join(from).exists(), "{from}");
        assert_eq!(sys.wasi.room, Room::of(10, 10), "{from} {to}");
    }
    // Also where it is the only name.
    sys.unlink("hard").expect("unlink");
    sys.wasi.room = Room::of(10, 10);
    sys.rename("d/f", "relative/f").expect("rename");
    assert_eq!(sys.wasi.room, Room::of(10, 10));
    sys.open("g", CREATE).expect("create");
    sys.rename("g", "relative/f").expect("it replaces another");
    assert_eq!(sys.wasi.room, Room::of(110, 10));
}

#[test]
fn what_is_open_takes_room_after_its_name_is_gone() {
    let mut sys = Sys::new();
    sys.wasi.room = Room::of(10, 10);
    let fd = sys.open("f", CREATE).expect("create");
    let again = sys.read_only(b"f").expect("open");
    sys.write(fd, b"12345678").expect("write");
    sys.unlink("f").expect("unlink");
    assert_eq!(sys.wasi.room, Room::of(10, 10), "the workspace is empty");
    let other = sys.open("g", CREATE).expect("create");
    assert_eq!(sys.write(other, b"1234"), Ok(2));
    assert_eq!(sys.write(fd, b"x"), Err(Errno::NOSPC));
    // The next execution, whose room is what the workspace itself leaves.
    sys.wasi.set_stdin(Vec::new());
    sys.wasi.room = Room::of(9, 10);
    assert_eq!(sys.write(fd, b"xy"), Ok(1), "it grows by what is left");
    assert_eq!(sys.write(other, b"x"), Err(Errno::NOSPC));
    assert_eq!(sys.wasi.room.bytes, 9, "nothing of it lies in the workspace");
    sys.wasi.fd_filestat_set_size(&mut Mem(&mut sys.mem), fd, 5).expect("it shrinks");
    assert_eq!(sys.write(other, b"12345"), Ok(4));
    sys.close(fd).expect("close");
    assert_eq!(sys.write(other, b"x"), Err(Errno::NOSPC), "it is open once more");
    sys.close(again).expect("close");
    assert_eq!(sys.write(other, b"123456"), Ok(5));
}

#[test]
fn what_is_open_takes_room_after_another_replaced_it() {
    let mut sys = Sys::new();
    sys.wasi.room = Room::of(10, 10);
    let fd = sys.open("f", CREATE).expect("create");
    sys.write(fd, b"12345678").expect("write");
    let other = sys.open("g", CREATE).expect("create");
    sys.rename("g", "f").expect("rename");
    assert_eq!(sys.write(other, b"1234"), Ok(2));
    sys.wasi.fd_renumber(&mut Mem(&mut sys.mem), other, fd).expect("it closes the other");
    assert_eq!(sys.write(fd, b"123456789"), Ok(8));
}

/// Commands make files of any length that take nothing.
#[test]
fn a_hole_that_another_made_gives_nothing_back() {
    let mut sys = Sys::new();
    sys.open("small", CREATE).expect("create");
    let huge = |sys: &Sys| {
        let file = std::fs::File::create(sys.at("workspace/huge")).expect("create");
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 100], 0).expect("write");
        file.set_len(900 << 30).expect("a hole");
    };
    let most = 1 << 20;
    for way in ["unlink", "truncate", "resize", "rename"] {
        huge(&sys);
        sys.wasi.room = Room::of(10, 10);
        match way {
            "unlink" => sys.unlink("huge").expect(way),
            "truncate" => drop(sys.open("huge", TRUNCATE).expect(way)),
            "resize" => {
                let fd = sys.open("huge", 0).expect("open");
                sys.wasi.fd_filestat_set_size(&mut Mem(&mut sys.mem), fd, 50).expect(way);
            }
            _ => sys.rename("small", "huge").expect(way),
        }
        assert!((10..most).contains(&sys.wasi.room.bytes), "{way}: {}", sys.wasi.room.bytes);
    }
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

/// Two guests of one workspace.
fn pair() -> (Sys, Sys) {
    let (mut one, mut other) = (Sys::new(), Sys::new());
    let shared = std::sync::Arc::default();
    one.wasi = Wasi::new(places(one.dir.path()).beside(&shared));
    other.wasi = Wasi::new(places(one.dir.path()).beside(&shared));
    (one, other)
}

fn take(sys: &mut Sys, bytes: u64) -> Result<(), Errno> {
    sys.wasi.in_room(|wasi| {
        wasi.room.check(0, bytes)?;
        wasi.room.bytes -= bytes;
        wasi.room.take_entry()
    })
}

#[test]
fn who_runs_at_once_shares_what_is_left() {
    let (mut one, mut other) = pair();
    one.wasi.begin_room(Room::of(100, 3));
    take(&mut one, 60).expect("there is room");
    // Counted before that was written.
    other.wasi.begin_room(Room::of(100, 3));
    assert_eq!(take(&mut other, 41), Err(Errno::NOSPC));
    take(&mut other, 30).expect("there is room");
    assert_eq!(take(&mut one, 11), Err(Errno::NOSPC));
    // What one gives back the other has.
    other.wasi.in_room(|wasi| wasi.room.give(25));
    take(&mut one, 35).expect("there is room");
    assert_eq!(take(&mut other, 0), Err(Errno::NOSPC), "three entries were taken");
    // Each tells what it took itself, so that all is counted once.
    assert_eq!(one.wasi.end_room(), Room { refused: true, ..Room::of(5, 1) });
    assert_eq!(other.wasi.end_room(), Room { refused: true, ..Room::of(95, 2) });
}

#[test]
fn who_runs_alone_has_what_it_was_given() {
    let (mut one, mut other) = pair();
    one.wasi.begin_room(Room::of(10, 10));
    take(&mut one, 10).expect("there is room");
    // One that is gone in the middle takes no part any more.
    one.wasi = Wasi::new(one.wasi.fds.places.clone());
    other.wasi.begin_room(Room::of(7, 7));
    take(&mut other, 7).expect("there is room");
    assert_eq!(other.wasi.end_room(), Room::of(0, 6));
    one.wasi.begin_room(Room::of(20, 20));
    take(&mut one, 20).expect("there is room");
}

#[test]
fn what_was_counted_after_the_last_write_is_believed() {
    let (mut one, mut other) = pair();
    one.wasi.begin_room(Room::of(10, 10));
    take(&mut one, 10).expect("there is room");
    let counted = std::time::Instant::now();
    // Somebody removed much, and nothing was written since.
    let given = Room::of(50, 10).as_of(Some(counted));
    other.wasi.begin_room(given);
    take(&mut other, 50).expect("there is room");
    assert_eq!(other.wasi.end_room(), Room { bytes: 0, entries: 9, ..given });
    assert_eq!(take(&mut one, 1), Err(Errno::NOSPC));
    assert_eq!(one.wasi.end_room(), Room { refused: true, ..Room::of(0, 9) });
}
