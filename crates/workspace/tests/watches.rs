//! Watching.

mod common;

use common::{Bench, errno, p};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use types::WatchEvent as E;
use workspace::Watcher;

async fn next(watcher: &mut Watcher) -> Option<E> {
    tokio::time::timeout(Duration::from_secs(30), watcher.next()).await.expect("an event").unwrap()
}

/// Events up to the one that says that `name` was made.
async fn until(watcher: &mut Watcher, name: &str) -> Vec<E> {
    let mut all = Vec::new();
    loop {
        let event = next(watcher).await.unwrap();
        if matches!(&event, E::Created { path, .. } if path.ends_with(name)) {
            return all;
        }
        all.push(event);
    }
}

fn created(path: &str, directory: bool) -> E {
    E::Created { path: path.to_owned(), path_base64: None, directory }
}

#[tokio::test]
async fn changes_are_told_as_they_are() {
    let bench = Bench::new();
    bench.ws.mkdir(&p("dir/sub"), true).unwrap();
    bench.put("dir/file", "x").unwrap();
    let mut watcher = bench.ws.watch(&p("dir")).unwrap();
    assert_eq!(next(&mut watcher).await, Some(E::Ready { path: "/workspace/dir".to_owned() }));
    bench.put("dir/new", "x").unwrap();
    assert_eq!(next(&mut watcher).await, Some(created("/workspace/dir/new", false)));
    bench.put("dir/new", "y").unwrap();
    let path = "/workspace/dir/new".to_owned();
    assert_eq!(next(&mut watcher).await, Some(E::Modified { path, path_base64: None }));
    bench.ws.rename(&p("dir/new"), &p("dir/sub/moved"), true).unwrap();
    let moved = |path: &str, new_path: &str, directory| E::Moved {
        path: path.to_owned(),
        path_base64: None,
        new_path: new_path.to_owned(),
        new_path_base64: None,
        directory,
    };
    let event = moved("/workspace/dir/new", "/workspace/dir/sub/moved", false);
    assert_eq!(next(&mut watcher).await, Some(event));
    bench.ws.rename(&p("dir/sub"), &p("dir/under"), true).unwrap();
    let event = moved("/workspace/dir/sub", "/workspace/dir/under", true);
    assert_eq!(next(&mut watcher).await, Some(event));
    // What lies in a moved directory is told under its new name.
    fs::write(bench.on_disk("dir/under/in"), "").unwrap();
    assert_eq!(next(&mut watcher).await, Some(created("/workspace/dir/under/in", false)));
    bench.ws.delete(&p("dir/file"), false, false).unwrap();
    let path = "/workspace/dir/file".to_owned();
    let event = E::Deleted { path, path_base64: None, directory: false };
    assert_eq!(next(&mut watcher).await, Some(event));
    let name = std::ffi::OsStr::from_bytes(b"\xff");
    fs::write(bench.on_disk("dir").join(name), "").unwrap();
    let event = E::Created {
        path: "/workspace/dir/\\xff".to_owned(),
        path_base64: Some("L3dvcmtzcGFjZS9kaXIv/w==".to_owned()),
        directory: false,
    };
    assert_eq!(next(&mut watcher).await, Some(event));
}

#[tokio::test]
async fn new_directories_are_watched_and_gone_ones_are_not() {
    let bench = Bench::new();
    let mut watcher = bench.ws.watch(&p("")).unwrap();
    next(&mut watcher).await;
    bench.ws.mkdir(&p("a/b/c"), true).unwrap();
    bench.put("a/b/c/file", "x").unwrap();
    until(&mut watcher, "/a/b/c/file").await;
    bench.ws.mkdir(&p("tree/in"), true).unwrap();
    bench.put("tree/in/file", "x").unwrap();
    until(&mut watcher, "/tree/in/file").await;
    bench.ws.copy(&p("tree"), &p("copy"), true, true).unwrap();
    let before = until(&mut watcher, "/copy/in/file").await;
    assert!(before.iter().all(|e| !format!("{e:?}").contains(".sandkeep-")), "{before:?}");
    fs::rename(bench.on_disk("a"), bench.dir.path().join("outside/a")).unwrap();
    fs::write(bench.dir.path().join("outside/a/b/c/unseen"), "x").unwrap();
    bench.put("seen", "x").unwrap();
    let events = until(&mut watcher, "/seen").await;
    assert!(
        events.iter().any(
            |e| matches!(e, E::Deleted { path, directory: true, .. } if path == "/workspace/a")
        )
    );
    assert!(!format!("{events:?}").contains("unseen"));
}

#[tokio::test]
async fn an_overflow_is_told_and_the_watch_goes_on() {
    let bench = Bench::new();
    let mut watcher = bench.ws.watch(&p("")).unwrap();
    next(&mut watcher).await;
    // More than the kernel keeps, without a reader.
    let most: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let name = bench.on_disk("file");
    for _ in 0..most / 2 + 1000 {
        fs::write(&name, "").unwrap();
        fs::remove_file(&name).unwrap();
    }
    fs::create_dir(bench.on_disk("missed")).unwrap();
    let mut told = 0;
    loop {
        match next(&mut watcher).await.unwrap() {
            E::Overflow => break,
            _ => told += 1,
        }
    }
    assert!(told > 1000);
    bench.put("missed/after", "x").unwrap();
    until(&mut watcher, "/missed/after").await;
}

#[tokio::test]
async fn the_end_of_the_directory_is_the_end() {
    let bench = Bench::new();
    bench.ws.mkdir(&p("dir/sub"), true).unwrap();
    bench.put("file", "x").unwrap();
    assert_eq!(errno(bench.ws.watch(&p("file"))), "ENOTDIR");
    assert_eq!(errno(bench.ws.watch(&p("missing"))), "ENOENT");
    let mut watcher = bench.ws.watch(&p("dir")).unwrap();
    // Not waited for to the end: nothing is lost.
    next(&mut watcher).await;
    let late = tokio::time::timeout(Duration::from_millis(20), watcher.next()).await;
    assert!(late.is_err());
    bench.ws.delete(&p("dir"), true, false).unwrap();
    let mut all = Vec::new();
    while let Some(event) = next(&mut watcher).await {
        all.push(event);
    }
    assert_eq!(all.last(), Some(&E::Gone), "{all:?}");
    assert!(matches!(&all[0], E::Deleted { path, .. } if path == "/workspace/dir/sub"), "{all:?}");
}
