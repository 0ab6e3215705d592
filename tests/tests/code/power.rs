//! A power cut: what the kernel had and the disk had not is lost, and no acknowledged state with it.

use crate::rig::*;
use e2e::Server;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::{FreshPack, Options, Store};

/// The store of a server that does not run.
fn store(server: &Server) -> Store {
    Store::open(Options { dir: server.data.clone() }).expect("opened")
}

/// The packs whose files are not synced yet, as far as the store knows.
async fn fresh(server: &Server) -> Vec<FreshPack> {
    let store = store(server);
    let packs = store.fresh_packs().await.expect("read");
    store.close().await;
    packs
}

/// Kills the server right after `code` ran, while what it saved is not synced yet; gives the packs.
async fn killed_after(server: &mut Server, id: &str, code: &str) -> Vec<FreshPack> {
    // The sync may come between.
    for _ in 0..20 {
        run(server, "s", id, code).await;
        server.kill();
        let packs = fresh(server).await;
        if !packs.is_empty() {
            return packs;
        }
        server.restart().await;
    }
    panic!("packs are always synced at once");
}

/// Where they are; one that nothing names any more may be gone already.
fn files(server: &Server, id: &str, packs: &[FreshPack]) -> Vec<PathBuf> {
    let object = Server::object("local", "s");
    let dir = server.data.join("sandboxes").join(object).join("contexts").join(id);
    let files = packs.iter().map(|pack| dir.join(&pack.file));
    files.filter(|file| file.exists()).collect()
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
        files(&server, &id, &packs).iter().for_each(|file| lose(file));
        let store = store(&server);
        // The machine was started anew.
        store.packs_lost(packs.clone()).await.expect("noted");
        let row = store.context(&packs[0].object, &id).await.expect("read");
        let saved = row.expect("its row").executions;
        store.close().await;
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
    let mut synced = false;
    for wait in [1500, 5000, 20_000] {
        run(&server, "s", &id, "globalThis.x = 41").await;
        tokio::time::sleep(Duration::from_millis(wait)).await;
        server.kill();
        synced = fresh(&server).await.is_empty();
        server.restart().await;
        if synced {
            break;
        }
    }
    assert!(synced, "never by itself");
    let packs = killed_after(&mut server, &id, "x = 42").await;
    let before = files(&server, &id, &packs);
    // No power cut: the files are as they were, and are synced by the next server.
    server.restart().await;
    server.kill();
    assert_eq!(fresh(&server).await, []);
    assert_eq!(files(&server, &id, &packs), before);
    server.restart().await;
    assert_eq!(text(&run(&server, "s", &id, "x").await), "42");
    // They go with their context.
    server.delete(&format!("/v1/sandboxes/s/contexts/{id}")).await.expect(204);
    server.kill();
    assert_eq!(fresh(&server).await, []);
}
