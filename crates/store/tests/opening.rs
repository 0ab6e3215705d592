//! Opening what is damaged, newer, foreign or taken.

mod common;

use common::{name, open, settings, vars};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use store::{Error, Options, Store};

fn refused(dir: &Path) -> Error {
    Store::open(Options { dir: dir.into() }).expect_err("the store must be refused")
}

/// A closed store with some hundred sandboxes.
async fn used() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut writes = tokio::task::JoinSet::new();
    for i in 0..300 {
        let store = store.clone();
        writes.spawn(async move {
            let name = name("ada", &format!("s{i}"));
            store.create(&name, &settings(), &vars(&[("A", "1")]), i, None).await.unwrap();
        });
    }
    writes.join_all().await;
    store.close().await;
    dir
}

#[tokio::test]
async fn a_second_opener_is_refused_with_the_pid_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let error = refused(dir.path());
    let pid = std::process::id();
    assert!(matches!(error, Error::Locked { pid: Some(p), .. } if p == pid), "{error:?}");
    assert!(error.to_string().contains(&format!("process {pid}")), "{error}");
    store.close().await;
    open(dir.path()).close().await;
}

#[tokio::test]
async fn an_opener_waits_for_a_predecessor_that_is_leaving() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let path = dir.path().to_owned();
    let second = tokio::task::spawn_blocking(move || Store::open(Options { dir: path }));
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    drop(store);
    second.await.unwrap().expect("opens once the first has left");
}

#[tokio::test]
async fn a_newer_database_is_refused_and_left_as_it_is() {
    let dir = used().await;
    let path = dir.path().join("store.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "user_version", 999).unwrap();
    drop(db);
    let before = fs::read(&path).unwrap();
    let error = refused(dir.path());
    assert!(matches!(error, Error::Newer { found: 999, .. }), "{error:?}");
    assert!(error.to_string().contains("999"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn the_database_of_the_first_release_is_brought_up_to_date() {
    let dir = tempfile::tempdir().unwrap();
    // As that release left it: a sandbox that runs, one that is gone.
    let db = rusqlite::Connection::open(dir.path().join("store.db")).unwrap();
    db.execute_batch(include_str!("../migrations/0001_store.sql")).unwrap();
    let s7 = name("ada", "s7").object_id();
    let settings = serde_json::to_string(&common::settings()).unwrap();
    let sql = "INSERT INTO sandboxes (object, owner, id, created_at, last_activity, image,
            generation, state, starts, record_activity, started_at, stopped_at, reason, cause,
            destroyed_at)
         VALUES (?1, 'ada', ?2, 7, 9, 'host', 1, ?3, 1, 9, 8, ?4, ?5, ?5, ?4)";
    let none = None::<i64>;
    let gone = name("ada", "gone").object_id();
    db.execute(sql, rusqlite::params![s7.as_bytes(), "s7", "running", none, none]).unwrap();
    db.execute(sql, rusqlite::params![gone.as_bytes(), "gone", "stopped", 9, "idle"]).unwrap();
    let sql = "INSERT INTO configurations VALUES (1, ?1, '{\"A\":\"1\"}')";
    db.execute(sql, [settings]).unwrap();
    db.pragma_update(None, "user_version", 1).unwrap();
    drop(db);
    for _ in 0..2 {
        let store = open(dir.path());
        let row = store.load(&s7).await.unwrap().unwrap();
        assert_eq!((row.created_at, row.env_vars), (7, vars(&[("A", "1")])));
        assert!(row.labels.is_empty());
        let made = store.contexts(&s7).await.unwrap().len();
        let context = common::context(&format!("c{made}"), 8);
        store.create_context(&s7, 7, &context, 8).await.unwrap();
        let (all, _) = store.account(&types::InstanceFilter::default(), 0, 9, None).await.unwrap();
        let told: Vec<_> =
            all.iter().map(|r| (&*r.name, &*r.placement.image, r.placement.memory_mib)).collect();
        assert_eq!(told, [("ada/gone", "host", 0), ("ada/s7", "host", 512)]);
        store.close().await;
    }
    assert_eq!(open(dir.path()).contexts(&s7).await.unwrap().len(), 2);
}

#[tokio::test]
async fn damage_is_found_and_the_message_says_what_to_do() {
    for damage in ["garbage", "header", "middle", "cut", "empty", "missing"] {
        let dir = used().await;
        let path = dir.path().join("store.db");
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        let noise = vec![0xA5; 8192];
        match damage {
            "garbage" => fs::write(&path, "this is no database, but a text".repeat(400)).unwrap(),
            "header" => file.write_all_at(&noise[..60], 20).unwrap(),
            "middle" => (2..length / 4096 - 2)
                .for_each(|p| file.write_all_at(&noise[..2000], p * 4096).unwrap()),
            "cut" => file.set_len(length / 2).unwrap(),
            "empty" => file.set_len(0).unwrap(),
            _ => fs::remove_file(&path).unwrap(),
        }
        let before = fs::read(&path).ok();
        let error = refused(dir.path());
        assert!(matches!(error, Error::Corrupt { .. }), "{damage}: {error:?}");
        let text = error.to_string();
        assert!(text.contains("restore a backup") && text.contains("store.db"), "{text}");
        assert_eq!(fs::read(&path).ok(), before, "{damage}: left as it is");
    }
}

#[tokio::test]
async fn the_database_of_another_program_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("CREATE TABLE theirs (a)").unwrap();
    drop(db);
    let before = fs::read(&path).unwrap();
    assert!(matches!(refused(dir.path()), Error::Corrupt { .. }));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn the_directory_is_made_and_only_its_owner_reads_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("a").join("b");
    let store = open(&deep);
    store.set_meta("a", "b").await.unwrap();
    for file in ["store.db", "store.db-wal", "store.db-shm", "store.reserve", "lock"] {
        let mode = fs::metadata(deep.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(fs::metadata(&deep).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(fs::metadata(deep.join("store.reserve")).unwrap().len() >= 4 << 20);
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let error = refused(&dir.path().join("file").join("data"));
    assert!(matches!(error, Error::File { .. }), "{error:?}");
    assert!(error.to_string().contains("data"), "{error}");
}
