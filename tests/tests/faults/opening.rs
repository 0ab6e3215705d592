//! What a server finds when it opens its data directory.

use crate::common::stops;
use e2e::{Server, binary};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Output};

/// Serves the directory, which must be refused.
fn refused(data: &Path) -> String {
    let Output { status, stderr, .. } = Command::new("timeout")
        .args(["60"])
        .arg(binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--stop-on-exit", "--data"])
        .arg(data)
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(125), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_daemon_is_refused_and_touches_nothing() {
    let server = Server::start().await;
    server.exec("a", &["true"]).await;
    let said = refused(&server.data);
    assert!(said.contains("in use by") && said.contains(&server.pid().to_string()), "{said}");
    assert!(said.contains("another directory"), "{said}");
    // The first one goes on, on its socket too, with its instance.
    assert_eq!(server.exec("a", &["echo", "x"]).await["stdout"], "x\n");
    assert!(server.data.join("admin.sock").exists());
    assert!(stops(&server, "a").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_is_refused_and_left_as_it_is() {
    let mut server = Server::start().await;
    for n in 0..40 {
        server.put(&format!("/v1/sandboxes/s{n}"), json!({})).await.expect(201);
    }
    assert!(server.terminate().success());
    let path = server.data.join("store.db");
    let whole = std::fs::read(&path).expect("the store");
    let page = 4096;
    let mut torn = whole.clone();
    for at in (page..torn.len()).step_by(page) {
        let end = (at + 512).min(torn.len());
        torn[at..end].fill(0xAA);
    }
    for bytes in
        [torn, b"this is no database at all, it is a text of somebody".to_vec(), Vec::new()]
    {
        std::fs::write(&path, &bytes).expect("written");
        let said = refused(&server.data);
        assert!(said.contains("store.db") && said.contains("damaged"), "{said}");
        assert!(said.contains("restore a backup"), "{said}");
        assert_eq!(std::fs::read(&path).expect("the store"), bytes);
    }
    std::fs::write(&path, &whole).expect("written");
    server.restart().await;
    let page = server.get("/v1/sandboxes?limit=100").await.expect(200);
    assert_eq!(page["sandboxes"].as_array().map(Vec::len), Some(40));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_a_newer_release_is_refused_and_left_as_it_is() {
    let mut server = Server::start().await;
    server.put("/v1/sandboxes/a", json!({})).await.expect(201);
    assert!(server.terminate().success());
    let path = server.data.join("store.db");
    let mut bytes = std::fs::read(&path).expect("the store");
    let whole = bytes.clone();
    // `user_version` of the file format: four bytes, big end first.
    bytes[60..64].copy_from_slice(&9999_u32.to_be_bytes());
    std::fs::write(&path, &bytes).expect("written");
    let said = refused(&server.data);
    assert!(said.contains("9999") && said.contains("newer"), "{said}");
    assert_eq!(std::fs::read(&path).expect("the store"), bytes);
    std::fs::write(&path, &whole).expect("written");
    server.restart().await;
    server.get("/v1/sandboxes/a").await.expect(200);
}
