//! What fits, what does not, and that others write too.

mod common;

use common::{Bench, errno, p};
use std::fs;
use std::thread;
use workspace::{Limits, Room, Usage};

fn small() -> Bench {
    Bench::with(Limits { file_bytes: 600, bytes: 1000, entries: 5 })
}

#[test]
fn limits_hold_and_what_is_freed_is_free() {
    let bench = small();
    assert_eq!(errno(bench.put("large", [0; 601])), "EFBIG");
    assert_eq!(errno(bench.ws.write(&p("large"), Some(601))), "EFBIG");
    let error = bench.ws.write(&p("large"), Some(601)).err().unwrap();
    let error = error.public(types::FileOperation::Write, &p("large"));
    assert_eq!(
        (&error.context["maxSize"], &error.context["actualSize"]),
        (&600.into(), &601.into())
    );
    bench.put("a", [0; 600]).unwrap();
    assert_eq!(errno(bench.put("b", [0; 401])), "ENOSPC");
    assert_eq!(errno(bench.ws.write(&p("b"), Some(401))), "ENOSPC");
    bench.put("b", [0; 400]).unwrap();
    assert_eq!(bench.ws.room().unwrap(), Room { bytes: 0, entries: 3 });
    // What replaces as much fits.
    bench.put("a", [1; 600]).unwrap();
    bench.ws.write(&p("a"), Some(600)).unwrap();
    assert_eq!(errno(bench.ws.copy(&p("a"), &p("c"), false, true)), "ENOSPC");
    bench.put("a", [1; 100]).unwrap();
    bench.put("c", [1; 500]).unwrap();
    bench.ws.mkdir(&p("d"), false).unwrap();
    bench.ws.mkdir(&p("e"), false).unwrap();
    assert_eq!(errno(bench.ws.mkdir(&p("f"), false)), "ENOSPC");
    assert_eq!(errno(bench.ws.mkdir(&p("d/x/y"), true)), "ENOSPC");
    assert_eq!(errno(bench.put("f", "")), "ENOSPC");
    bench.put("a", "").unwrap();
    bench.ws.delete(&p("d"), true, false).unwrap();
    bench.put("f", [0; 100]).unwrap();
    let kept = bench.ws.usage().unwrap();
    bench.ws.forget_usage();
    assert_eq!(bench.ws.usage().unwrap(), kept);
    assert_eq!(kept, Usage { bytes: 1000, entries: 5 });
}

#[test]
fn what_a_shared_quota_leaves_is_a_limit_too() {
    let bench = small();
    bench.put("a", [0; 300]).unwrap();
    bench.ws.bound(400);
    assert_eq!(bench.ws.room().unwrap().bytes, 100);
    let error = bench.put("b", [0; 101]).unwrap_err();
    assert_eq!(error.errno(), "ENOSPC");
    let error = error.public(types::FileOperation::Write, &p("b"));
    assert_eq!(error.code, types::ErrorCode::NoSpace);
    // What it leaves is nobody's business but its owner's.
    assert!(!error.message.contains("400"), "{error}");
    bench.put("b", [0; 100]).unwrap();
    // Others took more than they left: what is there stays, and may shrink.
    bench.ws.bound(200);
    assert_eq!(bench.ws.room().unwrap().bytes, 0);
    assert_eq!(errno(bench.put("c", "x")), "ENOSPC");
    bench.put("a", [1; 250]).unwrap();
    bench.ws.mkdir(&p("d"), false).unwrap();
    // Its own limit is not lifted by it.
    bench.ws.bound(1 << 40);
    assert_eq!(bench.ws.room().unwrap().bytes, 650);
}

#[test]
fn who_counts_by_itself_is_believed() {
    let bench = Bench::with(Limits { bytes: 1000, ..Limits::default() });
    let write = |name: &str, bytes: usize| {
        let given = bench.ws.room().unwrap();
        let writing = bench.ws.writing(given);
        fs::write(bench.on_disk(name), vec![0; bytes]).unwrap();
        let (bytes, entries) = (given.bytes - bytes as u64, given.entries - 1);
        writing.done(Room { bytes, entries });
    };
    // The next one knows of it at once, without a count.
    for n in 0..4_u64 {
        write(&n.to_string(), 250);
        assert_eq!(bench.ws.room().unwrap().bytes, 1000 - 250 * (n + 1));
    }
    let given = bench.ws.room().unwrap();
    let writing = bench.ws.writing(given);
    fs::remove_file(bench.on_disk("0")).unwrap();
    writing.done(Room { bytes: given.bytes + 250, entries: given.entries + 1 });
    assert_eq!(bench.ws.room().unwrap().bytes, 250);
    // What was counted in the middle is not counted twice.
    let given = bench.ws.room().unwrap();
    let writing = bench.ws.writing(given);
    fs::write(bench.on_disk("0"), [0; 100]).unwrap();
    bench.ws.forget_usage();
    bench.ws.usage().unwrap();
    writing.done(Room { bytes: given.bytes - 100, entries: given.entries - 1 });
    assert_eq!(bench.ws.room().unwrap().bytes, 150);
    // Who goes away without a word is counted.
    let writing = bench.ws.writing(bench.ws.room().unwrap());
    fs::write(bench.on_disk("4"), [0; 50]).unwrap();
    drop(writing);
    assert_eq!(bench.ws.room().unwrap().bytes, 100);
}

#[test]
fn what_others_write_and_delete_counts() {
    let bench = small();
    bench.put("a", [0; 100]).unwrap();
    fs::write(bench.on_disk("theirs"), [0; 900]).unwrap();
    // A count that is a moment old may let one through; a fresh one does not.
    bench.ws.forget_usage();
    assert_eq!(errno(bench.put("b", "x")), "ENOSPC");
    assert_eq!(bench.ws.room().unwrap(), Room { bytes: 0, entries: 3 });
    // Nothing is refused on an old count.
    fs::remove_file(bench.on_disk("theirs")).unwrap();
    bench.put("b", [0; 600]).unwrap();
    fs::write(bench.on_disk("theirs"), [0; 10_000]).unwrap();
    bench.ws.forget_usage();
    assert_eq!(bench.ws.room().unwrap(), Room { bytes: 0, entries: 2 });
    assert_eq!(errno(bench.put("c", "x")), "ENOSPC");
    bench.ws.delete(&p("theirs"), false, false).unwrap();
    bench.put("c", [0; 300]).unwrap();
}

#[test]
fn many_at_once_do_not_pass_the_limit() {
    let bench = Bench::with(Limits { file_bytes: 1 << 20, bytes: 1 << 20, entries: 40 });
    let written: u64 = thread::scope(|scope| {
        let each = (0..8).map(|n| {
            let bench = &bench;
            scope.spawn(move || {
                (0..20).filter(|m| bench.put(&format!("{n}-{m}"), [0; 30_000]).is_ok()).count()
                    as u64
            })
        });
        each.collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(written, (1 << 20) / 30_000, "as many as fit");
    bench.ws.forget_usage();
    assert_eq!(bench.ws.usage().unwrap(), Usage { bytes: written * 30_000, entries: written });
}

#[test]
fn a_large_tree_is_not_counted_at_each_write() {
    let bench = Bench::new();
    for n in 0..20_000 {
        if n % 1000 == 0 {
            fs::create_dir(bench.on_disk(&(n / 1000).to_string())).unwrap();
        }
        fs::write(bench.on_disk(&format!("{}/{n}", n / 1000)), "").unwrap();
    }
    bench.ws.forget_usage();
    let counting = std::time::Instant::now();
    bench.ws.usage().unwrap();
    let counting = counting.elapsed();
    let writing = std::time::Instant::now();
    for n in 0..200 {
        bench.put(&format!("file-{n}"), "x").unwrap();
    }
    // 200 counts would take 200 times as long; a few may happen.
    let most = counting * 60 + std::time::Duration::from_secs(20);
    assert!(writing.elapsed() < most, "{:?} against {counting:?}", writing.elapsed());
    assert_eq!(bench.ws.usage().unwrap().entries, 20_220);
}
