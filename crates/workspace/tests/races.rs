//! Two at once, and a hostile one beside.

mod common;

use common::{Bench, errno, p};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[test]
fn a_cut_upload_changes_nothing() {
    let bench = Bench::new();
    bench.put("kept", "old").unwrap();
    for name in ["kept", "new"] {
        let mut upload = bench.ws.write(&p(name), Some(10 << 20)).unwrap();
        upload.write(&vec![1; 5 << 20]).unwrap();
        drop(upload);
    }
    assert_eq!(bench.names(""), ["kept"]);
    assert_eq!(bench.get("kept").unwrap(), b"old");
    assert_eq!(bench.ws.room().unwrap().bytes, (1 << 30) - 3);
}

#[test]
fn of_two_writers_one_wins_whole() {
    let bench = Bench::new();
    for round in 0..10 {
        thread::scope(|scope| {
            for byte in [1_u8, 2] {
                let bench = &bench;
                scope.spawn(move || bench.put("file", vec![byte; 10 << 20]).unwrap());
            }
        });
        let bytes = bench.get("file").unwrap();
        assert_eq!(bytes.len(), 10 << 20);
        assert!(bytes.iter().all(|b| *b == bytes[0]), "round {round} is a mixture");
        assert_eq!(bench.names(""), ["file"]);
    }
    bench.ws.forget_usage();
    assert_eq!(bench.ws.usage().unwrap().bytes, 10 << 20);
}

/// While a directory and a link to outside take turns under one name, no call touches what is
/// outside.
#[test]
fn a_directory_that_becomes_a_link_leads_nowhere() {
    let bench = Bench::new();
    let outside = bench.dir.path().join("outside");
    fs::create_dir(bench.on_disk("real")).unwrap();
    fs::write(bench.on_disk("real/file"), "inside").unwrap();
    symlink(&outside, bench.on_disk("evil")).unwrap();
    fs::create_dir(bench.on_disk("dir")).unwrap();
    fs::write(bench.on_disk("dir/file"), "inside").unwrap();
    let done = AtomicBool::new(false);
    let flip = |a: &str, b: &str| {
        use rustix::fs::{CWD, RenameFlags};
        let (a, b) = (bench.on_disk(a), bench.on_disk(b));
        rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
    };
    let (mut inside, mut refused) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                flip("dir", "evil");
            }
        });
        for n in 0..3000 {
            match bench.get("dir/file") {
                Ok(bytes) => {
                    assert_ne!(bytes, b"outside");
                    inside += 1;
                }
                Err(error) => {
                    refused += 1;
                    assert!(
                        ["EACCES", "ESTALE", "ENOENT", "ENOTDIR"].contains(&error.errno()),
                        "{error}"
                    );
                }
            }
            let _ = bench.put("dir/file", "inside");
            let _ = bench.ws.mkdir(&p("dir/made"), true);
            let _ = bench.ws.rename(&p("dir/file"), &p("dir/moved"), true);
            let _ = bench.ws.rename(&p("dir/moved"), &p("dir/file"), true);
            let _ = bench.ws.copy(&p("dir/file"), &p("dir/copy"), true, true);
            let _ = bench.ws.delete(&p("dir/made"), true, true);
            if n % 10 == 0 {
                let _ = bench.ws.list(&p("dir"), true, true).map(|list| {
                    assert!(list.files.iter().all(|f| !f.name.contains("outside")));
                });
                let _ = bench.ws.copy(&p("dir"), &p("tree"), true, true);
                let _ = bench.ws.delete(&p("tree"), true, true);
                let mut tar = tar::Builder::new(Vec::new());
                let mut header = tar::Header::new_gnu();
                header.set_size(1);
                tar.append_data(&mut header, "dir/sub/x", &b"x"[..]).unwrap();
                let _ = bench.ws.unpack(&p(""), &*tar.into_inner().unwrap());
                let _ = bench.ws.delete(&p("dir/sub"), true, true);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(inside > 0 && refused > 0, "no race: {inside} inside, {refused} refused");
    let left: Vec<_> = fs::read_dir(&outside).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["file"]);
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"outside");
}

#[test]
fn a_tree_that_is_filled_while_it_is_deleted_ends() {
    let bench = Bench::new();
    bench.ws.mkdir(&p("dir/sub"), true).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                n += 1;
                let _ = fs::write(bench.on_disk(&format!("dir/sub/{n}")), "x");
            }
        });
        let found = errno(bench.ws.delete(&p("dir"), true, false));
        assert!(["none", "ENOTEMPTY"].contains(&found), "{found}");
        done.store(true, Ordering::Relaxed);
    });
    bench.ws.delete(&p("dir"), true, true).unwrap();
}
