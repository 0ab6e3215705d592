//! A power cut: what the kernel had and the disk had not is lost, and no acknowledged state with it.

use crate::rig::*;
use e2e::Server;
use rusqlite::{Connection, OpenFlags};
use std::fs;
use std::path::{Path, PathBuf};

/// The packs of a context whose files are not synced yet, as the store has them.
fn fresh(server: &Server) -> Vec<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let store = Connection::open_with_flags(server.data.join("store.db"), flags).expect("opened");
    let mut files = store.prepare("SELECT file FROM fresh_packs").expect("a table");
    let files = files.query_map([], |row| row.get(0)).expect("asked");
    files.collect::<Result<_, _>>().expect("texts")
}

/// Kills the server right after `code` ran, while what it saved is not synced yet; gives the packs.
async fn killed_after(server: &mut Server, id: &str, code: &str) -> Vec<PathBuf> {
    let object = Server::object("local", "s");
    let dir = server.data.join("sandboxes").join(object).join("contexts").join(id);
    // The sync may come between.
    for _ in 0..20 {
        run(server, "s", id, code).await;
        server.kill();
        let files = fresh(server);
        if !files.is_empty() {
            // One that nothing names any more may be gone already.
            let files = files.iter().map(|file| dir.join(file));
            return files.filter(|file| file.exists()).collect();
        }
        server.restart().await;
    }
    panic!("packs are always synced at once");
}

async fn all_synced(server: &Server) {
    let none = || async { fresh(server).is_empty().then_some(()) };
    e2e::eventually("all packs are synced", SOON, none).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_power_cut() {
    let mut server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "globalThis.x = 0").await;
    let ways: [fn(&Path); 4] = [
        |pack| fs::remove_file(pack).expect("removed"),
        |pack| fs::write(pack, b"").expect("cut"),
        |pack| fs::write(pack, vec![0; 70_000]).expect("zeroed"),
        |pack| {
            let mut bytes = fs::read(pack).expect("read");
            bytes.truncate(bytes.len() / 2);
            fs::write(pack, bytes).expect("torn");
        },
    ];
    for lose in ways {
        let packs = killed_after(&mut server, &id, "x += 1").await;
        packs.iter().for_each(|pack| lose(pack));
        // The machine was started anew.
        let store = Connection::open(server.data.join("store.db")).expect("opened");
        let of_before = store.execute("UPDATE fresh_packs SET boot = 'before'", []);
        assert!(of_before.expect("changed") >= packs.len());
        let saved: i64 = store
            .query_row("SELECT executions FROM contexts WHERE id = ?1", [&id], |row| row.get(0))
            .expect("its row");
        drop(store);
        server.restart().await;
        let x = text(&run(&server, "s", &id, "x").await).parse::<i64>().expect("a number");
        // One made it, and each that was saved since, but for those that looked.
        assert_eq!(told(&server, "s", &id).await["executions"], saved + 1);
        run(&server, "s", &id, &format!("if (x !== {x}) throw x")).await;
    }
    let x = text(&run(&server, "s", &id, "x").await).parse::<i64>().expect("a number");
    assert!(x >= 4, "{x}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_synced_soon_and_then_stand_by_themselves() {
    let mut server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "globalThis.x = 41").await;
    all_synced(&server).await;
    let packs = killed_after(&mut server, &id, "x = 42").await;
    server.restart().await;
    // No power cut: the files are as they were, and are synced by the next server.
    all_synced(&server).await;
    assert!(packs.iter().all(|pack| pack.exists()));
    assert_eq!(text(&run(&server, "s", &id, "x").await), "42");
    // They go with their context.
    killed_after(&mut server, &id, "x = 43").await;
    server.restart().await;
    server.delete(&format!("/v1/sandboxes/s/contexts/{id}")).await.expect(204);
    assert_eq!(fresh(&server), [""; 0]);
}
