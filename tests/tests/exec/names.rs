//! Names in paths: what breaks the rule is refused before anything is touched, what keeps to it
//! really starts.

use crate::rig::{raw, sh};
use e2e::{Builder, Server};
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::path::PathBuf;

const TYPE: &str = "content-type: application/json\r\n";
const COMMAND: &str = r#"{"argv":["true"]}"#;

#[tokio::test]
async fn a_bad_name_touches_nothing() {
    let server = Server::start().await;
    let long = "x".repeat(64);
    // As they stand in the path, and what the message must show.
    let bad = [
        ("a%2Fb", "'/'"),
        ("..%2f..%2fx", "'/'"),
        ("%2e%2e", "\"..\""),
        ("..", "\"..\""),
        (".", "\".\""),
        ("%2E", "\".\""),
        ("-a", "'-'"),
        ("a-", "'-'"),
        ("%2da", "'-'"),
        (long.as_str(), "63"),
        ("a%00b", "'\\0'"),
        ("a%20b", "' '"),
        ("a+b", "'+'"),
        ("a%0Ab", "'\\n'"),
        // Decoded once, not twice.
        ("a%252fb", "'%'"),
        ("%ff%fe", "UTF-8"),
        ("%C3%A9", "'é'"),
        ("e%CC%81", "63"),
        ("%D0%B0b", "'а'"),
        ("a%E2%80%AEb", "63"),
        ("Admin", "reserved"),
        ("ROOT", "reserved"),
        ("www", "reserved"),
    ];
    for (name, shown) in bad {
        let ways = [
            ("POST", format!("/v1/sandboxes/{name}/exec"), "id"),
            ("PUT", format!("/v1/sandboxes/{name}"), "id"),
            ("POST", format!("/users/ada/sandboxes/{name}"), "session"),
            ("POST", format!("/sandboxes/{name}"), "name"),
        ];
        for (method, path, field) in ways {
            let body = if method == "PUT" { "{}" } else { COMMAND };
            let error = raw(&server, method, &path, TYPE, body).await;
            let error = error.expect_error(400, "VALIDATION_FAILED");
            assert_eq!(error["context"]["field"], field, "{path}: {error}");
            let message = error["message"].as_str().expect("text");
            assert!(message.contains(shown), "{path}: {message}");
        }
        let owner = format!("/users/{name}/sandboxes/x");
        let answer = raw(&server, "POST", &owner, TYPE, COMMAND).await;
        if shown == "reserved" {
            // Owners may be called so.
            answer.expect(200);
        } else {
            assert_eq!(answer.expect_error(400, "VALIDATION_FAILED")["context"]["field"], "owner");
        }
    }
    for owner in ["local", "ada"] {
        let listed = server.get(&format!("/users/{owner}/sandboxes")).await.expect(200);
        assert_eq!(listed, json!([]), "{owner}");
    }
}

#[tokio::test]
async fn good_names_start_and_are_kept_apart() {
    let server = Server::start().await;
    let (long, other) = (format!("{}a", "n".repeat(62)), format!("{}b", "n".repeat(62)));
    let good = ["a", "A", "a.b", "a..b", "...", "_", "0", ".a", "a.", "x-1_Z.9", &long, &other];
    for name in good {
        sh(&server, name, &format!("echo '{name}' > mine")).await;
    }
    for name in good {
        let kept = server.exec(name, &["sh", "-c", "ls; cat mine"]).await;
        assert_eq!(kept["stdout"], format!("mine\n{name}\n"), "{name}");
    }
    // The same sandbox by its three paths, percent-encoded or not.
    for path in ["/users/local/sandboxes/a%2eb", "/sandboxes/%61.b", "/v1/sandboxes/a.b/exec"] {
        let answer = raw(&server, "POST", path, TYPE, r#"{"argv":["cat","mine"]}"#).await;
        assert_eq!(answer.expect(200)["stdout"], "a.b\n", "{path}");
    }
    let listed = server.get("/users/local/sandboxes").await.expect(200);
    let listed: Vec<&str> =
        listed.as_array().expect("a list").iter().filter_map(|e| e["session"].as_str()).collect();
    assert_eq!(listed, good);
    // Another owner's of the same name is another one.
    let others = server.post("/users/Local/sandboxes/a", json!({"argv": ["ls"]})).await.expect(200);
    assert_eq!(others["stdout"], "");
}

/// A path of exactly so many characters below `under`.
fn long_path(under: &std::path::Path, length: usize) -> PathBuf {
    let mut path = under.to_str().expect("text").to_owned();
    while path.len() < length {
        let more = (length - path.len() - 1).min(60);
        path = format!("{path}/{}", "d".repeat(more));
    }
    assert_eq!(path.len(), length);
    path.into()
}

/// Names that the rule accepts, of all lengths, by a fixed seed.
fn names(count: usize) -> Vec<String> {
    const INNER: &[u8] = b"abcxyzABCXYZ0189._-";
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut below = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    let mut names = std::collections::BTreeSet::new();
    while names.len() < count {
        let length = 1 + below(63);
        let name: String = (0..length).map(|_| char::from(INNER[below(INNER.len())])).collect();
        if name.parse::<types::SandboxId>().is_ok() {
            names.insert(name);
        }
    }
    names.into_iter().collect()
}

#[tokio::test]
async fn heavy_five_hundred_names_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = long_path(dir.path(), 200);
    std::fs::create_dir_all(&data).expect("it can be made");
    let server = Builder::default().data(&data).start().await;
    let names = names(500);
    assert!(names.iter().any(|n| n.len() == 63));
    let server = &server;
    futures::stream::iter(&names)
        .for_each_concurrent(6, |name| async move {
            let result = sh(server, name, &format!("echo '{name}' > mine; cat mine")).await;
            assert_eq!(result["stdout"], format!("{name}\n"), "{name}");
            server.post(&format!("/v1/sandboxes/{name}/stop"), Value::Null).await.expect(204);
        })
        .await;
    let listed = server.get("/users/local/sandboxes").await.expect(200);
    let listed = listed.as_array().expect("a list");
    assert_eq!(listed.len(), names.len());
    assert!(listed.iter().all(|e| e["running"] == false));
}
