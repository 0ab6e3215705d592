//! Files and the life of a sandbox: activity, idleness, destroy, a server that is killed.

use crate::rig::{SOON, connect, get, mkdir, names, put, workspace};
use e2e::{Server, eventually};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::time::Duration;

/// The info's time of last use.
async fn last_used(server: &Server, id: &str) -> String {
    server.get(&format!("/v1/sandboxes/{id}")).await.expect(200)["lastUsed"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn file_operations_are_activity_and_a_transfer_holds() {
    let server = Server::start().await;
    server
        .put("/v1/sandboxes/one", json!({"idleLimitMs": 1500, "checkIntervalMs": 500}))
        .await
        .expect(201);
    server.post("/v1/sandboxes/one/start", Value::Null).await.expect(200);
    put(&server, "one", "file", "x").await.expect(200);
    let before = last_used(&server, "one").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    get(&server, "one", "?list").await.expect(200);
    // It is written down within a second or so.
    eventually("activity", SOON, || async {
        (last_used(&server, "one").await > before).then_some(())
    })
    .await;
    // An upload that goes slowly is no idleness.
    let mut stream = connect(&server);
    stream.write_all(b"PUT /v1/sandboxes/one/files/slow HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\nconnection: close\r\n\r\n").unwrap();
    for _ in 0..10 {
        stream.write_all(b"x").unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
        let running = server.get("/v1/sandboxes/one").await.expect(200)["running"].clone();
        assert_eq!(running, true, "stopped under an upload");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    eventually("an idle stop", SOON, || async {
        let info = server.get("/v1/sandboxes/one").await.expect(200);
        (info["record"]["reason"] == "idle").then_some(())
    })
    .await;
    assert_eq!(get(&server, "one", "slow").await.text(), "xxxxxxxxxx");
    assert_eq!(
        server.get("/v1/sandboxes/one").await.expect(200)["running"],
        false,
        "reading starts nothing"
    );
}

/// Destroying waits for nobody who has stopped to read or to send, and ends them.
#[tokio::test(flavor = "multi_thread")]
async fn a_destroy_ends_transfers() {
    let server = Server::start().await;
    put(&server, "one", "large", vec![1; 60 << 20]).await.expect(200);
    mkdir(&server, "one", "dir").await;
    let mut streams = Vec::new();
    for (head, body) in [
        ("GET /v1/sandboxes/one/files/large HTTP/1.1", ""),
        ("GET /v1/sandboxes/one/archive HTTP/1.1", ""),
        ("GET /v1/sandboxes/one/watch HTTP/1.1", ""),
        ("PUT /v1/sandboxes/one/files/up HTTP/1.1\r\ncontent-length: 1000", "some"),
        ("PUT /v1/sandboxes/one/archive HTTP/1.1\r\ncontent-length: 100000", "some"),
    ] {
        let mut stream = connect(&server);
        stream
            .write_all(
                format!("{head}\r\nhost: localhost\r\nconnection: close\r\n\r\n{body}").as_bytes(),
            )
            .unwrap();
        streams.push(stream);
    }
    for stream in &mut streams[..3] {
        stream.read_exact(&mut [0; 200]).unwrap();
    }
    server.talk();
    server.delete("/v1/sandboxes/one").await.expect(204);
    // It gives up on activities that do not end in time, and says so.
    let talk = server.talk().join("\n");
    assert!(!talk.contains("outlive"), "{talk}");
    for stream in &mut streams[3..] {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("SANDBOX_DESTROYED"), "{answer}");
    }
    let mut events = String::new();
    streams[2].read_to_string(&mut events).unwrap();
    assert!(events.contains("event: gone"), "{events}");
    let mut rest = Vec::new();
    let _ = streams[0].read_to_end(&mut rest);
    assert!(rest.len() < 60 << 20, "the download did not end");
    server.get("/v1/sandboxes/one").await.expect_error(404, "SANDBOX_NOT_FOUND");
    assert!(!workspace(&server, "one").exists());
    put(&server, "one", "new", "x").await.expect(200);
    assert_eq!(names(&server, "one").await, ["new"]);
}

/// One owner's readers that have stopped to read are in nobody else's way, and a destroy lets go of
/// all that they held.
#[tokio::test(flavor = "multi_thread")]
async fn readers_that_do_not_read_hold_up_no_others() {
    let server = Server::start().await;
    let large = |owner: &str| format!("/v1/sandboxes/one/files/large?owner={owner}");
    for owner in ["eve", "bob"] {
        let body = Some(vec![1; 8 << 20]);
        server.send("PUT", &large(owner), &[], body).await.expect("sent").expect(200);
    }
    let path = "GET /v1/sandboxes/one/archive?owner=eve HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut unread: Vec<_> = (0..100).map(|_| connect(&server)).collect();
    for stream in &mut unread {
        stream.write_all(path.as_bytes()).unwrap();
    }
    for stream in &mut unread[..32] {
        stream.read_exact(&mut [0; 200]).unwrap();
    }
    server.get("/v1/sandboxes/one/archive?owner=bob").await.expect(200);
    let unlinked = || {
        let fds = format!("/proc/{}/fd", server.pid());
        let links =
            std::fs::read_dir(fds).unwrap().flatten().map(|fd| std::fs::read_link(fd.path()));
        links.flatten().filter(|link| link.to_string_lossy().ends_with("large (deleted)")).count()
    };
    server.delete("/v1/sandboxes/one?owner=eve").await.expect(204);
    eventually("the files are let go", SOON, || async { (unlinked() == 0).then_some(()) }).await;
    let again = server.send("PUT", &large("eve"), &[], Some(vec![2; 10])).await;
    again.expect("sent").expect(200);
    server.get("/v1/sandboxes/one/archive?owner=eve").await.expect(200);
    drop(unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_survive_a_killed_server_and_half_uploads_do_not() {
    let mut server = Server::start().await;
    put(&server, "one", "whole", "whole").await.expect(200);
    let mut streams = Vec::new();
    for n in 0..5 {
        let mut stream = connect(&server);
        let head = format!(
            "PUT /v1/sandboxes/one/files/half{n} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![0; 1_000_000]).unwrap();
        streams.push(stream);
    }
    put(&server, "one", "last", "last").await.expect(200);
    server.kill();
    server.restart().await;
    assert_eq!(names(&server, "one").await, ["last", "whole"]);
    assert_eq!(std::fs::read_dir(workspace(&server, "one")).unwrap().count(), 2);
    assert_eq!(get(&server, "one", "last").await.text(), "last");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_sandbox_has_no_files_and_can_be_used_again() {
    let server = Server::start().await;
    server.put("/v1/sandboxes/one", json!({"idleTtlMs": 700})).await.expect(201);
    put(&server, "one", "file", "x").await.expect(200);
    eventually("the expiry", SOON, || async {
        (!workspace(&server, "one").exists()).then_some(())
    })
    .await;
    put(&server, "one", "again", "y").await.expect(200);
    assert_eq!(names(&server, "one").await, ["again"]);
}
