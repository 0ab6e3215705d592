//! Who may make a command run, and what hostile requests do: nothing.

use crate::rig::{Raw, SOON, assert_fine, raw, sh};
use e2e::Server;
use serde_json::json;

const COMMAND: &str = r#"{"argv":["touch","/workspace/was-here"]}"#;
const TYPE: &str = "content-type: application/json\r\n";

/// A page in a browser of this machine, or a name that leads here, runs nothing.
#[tokio::test]
async fn web_pages_run_nothing() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    for head in [
        "host: evil.example\r\n",
        "host: evil.example:80\r\n",
        "host: 127.0.0.1.evil.example\r\n",
        "host: localhost.evil.example\r\n",
        "host: 192.0.2.1\r\n",
        "host: \r\n",
        "host: localhost\r\nhost: evil.example\r\n",
        "origin: https://evil.example\r\n",
        "origin: null\r\n",
        "origin: http://localhost:3000\r\n",
    ] {
        for path in ["/v1/sandboxes/s/exec", "/users/local/sandboxes/s", "/sandboxes/s"] {
            let answer = raw(&server, "POST", path, &format!("{TYPE}{head}"), COMMAND).await;
            let known = [400, 403].contains(&answer.status);
            assert!(known, "{head}{path}: {} {}", answer.status, answer.text());
            let allows = answer.headers.iter().any(|(n, _)| n.starts_with("access-control-"));
            assert!(!allows, "{head}{path}");
        }
    }
    // A page may send such a body without asking first.
    let simple = "content-type: text/plain\r\n";
    let answer = raw(&server, "POST", "/v1/sandboxes/s/exec", simple, COMMAND).await;
    answer.expect_error(415, "UNSUPPORTED_MEDIA_TYPE");
    let asked = "origin: https://evil.example\r\naccess-control-request-method: POST\r\n";
    let answer = raw(&server, "OPTIONS", "/v1/sandboxes/s/exec", asked, "").await;
    answer.expect_error(403, "FORBIDDEN");
    for host in ["localhost", "127.0.0.1:7700", "[::1]:7700", "LOCALHOST"] {
        let head = format!("{TYPE}host: {host}\r\n");
        let body = r#"{"argv":["true"]}"#;
        raw(&server, "POST", "/v1/sandboxes/s/exec", &head, body).await.expect(200);
    }
    assert_eq!(sh(&server, "s", "ls").await["stdout"], "");
}

/// Paths are not normalised: what looks like another route after dots or slashes is none.
#[tokio::test]
async fn dots_and_slashes_lead_nowhere() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    for path in [
        "/v1/x/../../healthz/../v1/sandboxes/s/exec",
        "/healthz/../v1/sandboxes/s/exec",
        "/healthz/%2e%2e/v1/sandboxes/s/exec",
        "//v1/sandboxes/s/exec",
        "/v1//sandboxes/s/exec",
        "/v1/sandboxes//exec",
        "/v1/sandboxes/s//exec",
        "/v1/sandboxes/s/exec/",
        "/v1/sandboxes/s/./exec",
        "/v1/sandboxes/s/%65xec/..",
        "/V1/sandboxes/s/exec",
        "/v1/sandboxes/s/exec%00",
        "/v1/sandboxes/s%2Fexec",
        "/users/ada/../local/sandboxes/s",
        "/users/local/sandboxes/s/",
        "/users//sandboxes/s",
        "/v1/sandboxes/s/exec;x=1",
        "/v1\\sandboxes\\s\\exec",
    ] {
        let answer = raw(&server, "POST", path, TYPE, COMMAND).await;
        let known = [400, 404, 405].contains(&answer.status);
        assert!(known, "{path}: {} {}", answer.status, answer.text());
    }
    // The whole address in the place of the path is HTTP as well, and is held to the same rule.
    let answer = raw(&server, "POST", "http://evil.example/v1/sandboxes/s/exec", TYPE, COMMAND);
    answer.await.expect_error(403, "FORBIDDEN");
    assert_eq!(sh(&server, "s", "ls").await["stdout"], "");
    let listed = server.get("/users/local/sandboxes").await.expect(200);
    assert_eq!(listed, json!([{"session": "s", "running": true}]));
}

/// Clients that speak slowly, too much or nonsense take nobody's place.
#[tokio::test]
async fn slow_and_loud_clients_hold_up_nobody() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    let mut slow = Vec::new();
    for i in 0..200 {
        let mut client = Raw::connect(&server).await;
        match i % 4 {
            0 => {}
            1 => client.write(b"POST /v1/sandboxes/s/exec HT").await,
            2 => {
                client
                    .write(b"POST /v1/sandboxes/s/exec HTTP/1.1\r\nhost: localhost\r\nx-a: b")
                    .await
            }
            _ => {
                let head = "POST /v1/sandboxes/s/exec HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"argv\"";
                client.write(head.as_bytes()).await;
            }
        }
        slow.push(client);
    }
    for _ in 0..5 {
        assert_fine(&server, "s").await;
    }
    // A head without end.
    let mut loud = Raw::connect(&server).await;
    loud.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n").await;
    let line = format!("x-filler: {}\r\n", "f".repeat(1000));
    for _ in 0..500 {
        // The server may close at any point.
        if !loud.try_write(line.as_bytes()).await {
            break;
        }
    }
    let rest = tokio::time::timeout(SOON, loud.rest()).await.expect("it is closed");
    let text = String::from_utf8_lossy(&rest).into_owned();
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 413 "), "{text}");
    // Two lengths, and both kinds of length: the second request hides in the first's body.
    for head in [
        "content-length: 0\r\ncontent-length: 60\r\n\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "content-length: +5\r\n\r\n",
        "transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
    ] {
        let mut client = Raw::connect(&server).await;
        let hidden = format!(
            "POST /v1/sandboxes/s/exec HTTP/1.1\r\nhost: localhost\r\n{TYPE}connection: close\r\ncontent-length: {}\r\n\r\n{COMMAND}",
            COMMAND.len()
        );
        let text =
            format!("POST /v1/sandboxes/s/touch HTTP/1.1\r\nhost: localhost\r\n{head}{hidden}");
        client.write(text.as_bytes()).await;
        // Whatever the answer is: there may be two, but never one that reads the first differently.
        tokio::time::timeout(SOON, client.rest()).await.expect("it is closed");
    }
    assert_fine(&server, "s").await;
    drop(slow);
}
