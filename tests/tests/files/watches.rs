//! Watching over HTTP.

use crate::rig::{SOON, connect, mkdir, op, put};
use e2e::{Server, eventually};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

struct Watch(BufReader<TcpStream>);

impl Watch {
    fn begin(server: &Server, id: &str, path: &str) -> Self {
        let mut stream = connect(server);
        let head =
            format!("GET /v1/sandboxes/{id}/watch?path={path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut watch = Self(BufReader::new(stream));
        assert_eq!(watch.next()["type"], "ready");
        watch
    }

    /// The next event's data.
    fn next(&mut self) -> Value {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended");
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.trim().to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                let data: Value = serde_json::from_str(data).unwrap();
                assert_eq!(data["type"], name, "{data}");
                return data;
            }
        }
    }

    /// The next event of this type.
    fn until(&mut self, name: &str, path: &str) -> Value {
        loop {
            let event = self.next();
            if event["type"] == name && event["path"] == path {
                return event;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_api_and_of_the_instance_are_told() {
    let server = Server::start().await;
    mkdir(&server, "one", "dir/sub").await;
    let mut watch = Watch::begin(&server, "one", "dir");
    put(&server, "one", "dir/sub/file", "x").await.expect(200);
    assert_eq!(
        watch.next(),
        json!({"type": "created", "path": "/workspace/dir/sub/file", "directory": false})
    );
    put(&server, "one", "outside", "x").await.expect(200);
    server
        .exec("one", &["sh", "-c", "mkdir dir/new && echo x > dir/new/in && rm dir/sub/file"])
        .await;
    watch.until("created", "/workspace/dir/new");
    watch.until("created", "/workspace/dir/new/in");
    watch.until("deleted", "/workspace/dir/sub/file");
    op(&server, "one", json!({"op": "move", "path": "dir/new", "newPath": "dir/old"}))
        .await
        .expect(200);
    assert_eq!(watch.until("moved", "/workspace/dir/new")["newPath"], "/workspace/dir/old");
    put(&server, "one", "dir/old/in", "changed").await.expect(200);
    watch.until("modified", "/workspace/dir/old/in");
    crate::rig::delete(&server, "one", "dir?recursive").await.expect(200);
    loop {
        if watch.next()["type"] == "gone" {
            break;
        }
    }
    server.get("/v1/sandboxes/one/watch?path=outside").await.expect_error(400, "NOT_DIRECTORY");
    server.get("/v1/sandboxes/one/watch?path=missing").await.expect_error(404, "FILE_NOT_FOUND");
}

/// A watch holds the sandbox busy, and not longer than its client is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_holds_until_its_client_goes() {
    let server = Server::start().await;
    server
        .put("/v1/sandboxes/one", json!({"idleLimitMs": 1000, "checkIntervalMs": 300}))
        .await
        .expect(201);
    server.post("/v1/sandboxes/one/start", Value::Null).await.expect(200);
    let watch = Watch::begin(&server, "one", "");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(server.get("/v1/sandboxes/one").await.expect(200)["running"], true);
    drop(watch);
    eventually("the idle stop", SOON, || async {
        (server.get("/v1/sandboxes/one").await.expect(200)["running"] == false).then_some(())
    })
    .await;
}

/// A reader that does not read is told that it missed something.
#[tokio::test(flavor = "multi_thread")]
async fn an_overflow_is_told() {
    let server = Server::start().await;
    mkdir(&server, "one", "dir").await;
    let mut watch = Watch::begin(&server, "one", "");
    // Long names fill what lies between the kernel's queue and here; two take turns, as the
    // kernel tells of the same thing only once.
    let (a, b) = ("a".repeat(250), "b".repeat(250));
    let script =
        format!("i=0; while [ $i -lt 30000 ]; do echo >>dir/{a}; echo >>dir/{b}; i=$((i+1)); done");
    let ran = server.exec("one", &["sh", "-c", &script]).await;
    assert_eq!(ran["exitCode"], 0, "{ran}");
    while watch.next()["type"] != "overflow" {}
    put(&server, "one", "after", "x").await.expect(200);
    watch.until("created", "/workspace/after");
}
