//! Idleness and expiry with code alone.

use crate::rig::*;
use e2e::eventually;
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_sandbox_has_no_contexts_and_keeps_its_entry() {
    let server = server().await;
    server
        .put("/v1/sandboxes/s", json!({ "idleTtlMs": 2000, "envVars": { "A": "1" } }))
        .await
        .expect(201);
    let answer =
        execute(&server, "s", "JAVASCRIPT", "require('fs').writeFileSync('f', 'x'); 1").await;
    let first = answer["context"]["id"].as_str().expect("an id").to_owned();
    let expires = answer["context"]["expiresAt"].as_i64().expect("ms");
    let info = server.get("/v1/sandboxes/s").await.expect(200);
    let told = info["expiresAt"].as_i64().expect("ms");
    assert!((expires..expires + 1000).contains(&told), "{expires} {info}");
    assert_eq!(info["workspace"]["files"], 1);
    let info = eventually("it expires", SOON, || async {
        let info = server.get("/v1/sandboxes/s").await.expect(200);
        (info["expiresAt"] == Value::Null).then_some(info)
    })
    .await;
    assert_eq!(info["contexts"], json!([]));
    assert_eq!(info["envVars"], json!({}));
    assert_eq!(info["workspace"], json!({ "files": 0, "bytes": 0 }));
    assert_eq!(info["running"], false);
    let listed = server.get("/users/local/sandboxes").await.expect(200);
    assert_eq!(listed, json!([{ "session": "s", "running": false }]));
    ask(&server, "s", &first, json!({ "code": "1" })).await.expect_error(404, "CONTEXT_NOT_FOUND");
    // Used again it is there again, empty.
    let answer = execute(&server, "s", "JAVASCRIPT", "require('fs').existsSync('f')").await;
    assert_eq!(
        (&answer["results"][0]["json"], &answer["executionCount"]),
        (&json!(false), &json!(1))
    );
    let again = server.get("/v1/sandboxes/s").await.expect(200);
    assert_eq!(again["createdAt"], info["createdAt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_runs_keeps_the_sandbox() {
    let server = server().await;
    server.put("/v1/sandboxes/s", json!({ "idleTtlMs": 500 })).await.expect(201);
    let code = "let x = 41; const end = Date.now() + 2500; while (Date.now() < end) {}; x";
    let answer = execute(&server, "s", "JAVASCRIPT", code).await;
    assert_eq!(text(&answer), "41", "it was not taken for idle");
    assert!(answer["context"]["executions"] == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_ends_and_the_context_does_not() {
    let server = server().await;
    server.put("/v1/sandboxes/s", json!({ "idleLimitMs": 300 })).await.expect(201);
    let id = context(&server, "s", "JAVASCRIPT").await;
    for n in 0..3 {
        let code = if n == 0 { "let x = 40; x += 1" } else { "x += 1" };
        let answer = run(&server, "s", &id, code).await;
        assert_eq!(text(&answer), (41 + n).to_string());
        // Long enough for its worker to be ended.
        tokio::time::sleep(Duration::from_millis(900)).await;
    }
}
