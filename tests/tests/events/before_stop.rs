//! What is done before a stop, and what it is not done for.

use crate::rig::{SOON, events, kinds, make, start, stop, until};
use e2e::{Server, eventually, processes};
use serde_json::{Value, json};

/// Of the workspace.
async fn file(server: &Server, id: &str, name: &str) -> Option<String> {
    let answer = server.get(&format!("/v1/sandboxes/{id}/files/{name}")).await;
    (answer.status == 200).then(|| answer.text())
}

async fn short() -> Server {
    Server::with(&["--check-interval", "200ms", "--inactivity-timeout", "60s"]).await
}

#[tokio::test]
async fn an_idle_instance_tells_and_does_what_it_has_to_first() {
    let server = short().await;
    let script = "echo $WHO was here > kept; exit 3";
    let settings = json!({
        "idleLimitMs": 300,
        "envVars": {"WHO": "ada"},
        "beforeStop": {"argv": ["sh", "-c", script], "timeoutMs": 30000},
    });
    make(&server, "a", settings.clone()).await;
    start(&server, "a").await;
    let stopped = until(&server, "a", "sandbox.stopped").await;
    assert_eq!(stopped["data"]["cause"], "idle");
    let all = events(&server, Some("a")).await;
    let told = ["sandbox.created", "sandbox.started", "sandbox.stopping", "sandbox.stopped"];
    assert_eq!(kinds(&all), told);
    assert_eq!(all[2]["data"], json!({"reason": "idle", "cause": "idle", "timeoutMs": 30000}));
    assert_eq!(all[2]["generation"], 1);
    assert_eq!(file(&server, "a", "kept").await.as_deref(), Some("ada was here\n"));
    let info = server.get("/v1/sandboxes/a").await.expect(200);
    assert_eq!(info["settings"]["beforeStop"], settings["beforeStop"]);
    // It is no command of anybody's.
    let executions = server.get("/v1/sandboxes/a/executions").await.expect(200);
    assert_eq!(executions, json!([]));
}

#[tokio::test]
async fn a_callers_stop_waits_for_it_and_no_longer_than_its_time() {
    let server = Server::start().await;
    let nap = format!("31{:06}", std::process::id());
    let settings = json!({"beforeStop": {"argv": ["sh", "-c", format!("echo x > began; sleep {nap} & wait")], "timeoutMs": 1500}});
    make(&server, "a", settings).await;
    start(&server, "a").await;
    stop(&server, "a", "lunch").await;
    let stopped = until(&server, "a", "sandbox.stopped").await;
    assert_eq!(stopped["data"]["reason"], "lunch");
    assert_eq!(kinds(&events(&server, Some("a")).await)[2], "sandbox.stopping");
    assert_eq!(file(&server, "a", "began").await.as_deref(), Some("x\n"));
    assert!(processes(&nap).is_empty());
    // Taken away again, it is done no more.
    let none = json!({"beforeStop": {"timeoutMs": 0}});
    server.json("PATCH", "/v1/sandboxes/a", none).await.expect(200);
    let info = server.get("/v1/sandboxes/a").await.expect(200);
    assert!(info["settings"]["beforeStop"].is_null());
    start(&server, "a").await;
    stop(&server, "a", "tea").await;
    let all = events(&server, Some("a")).await;
    assert_eq!(kinds(&all).iter().filter(|k| **k == "sandbox.stopping").count(), 1);
}

#[tokio::test]
async fn who_comes_meanwhile_keeps_it_running() {
    let server = short().await;
    let nap = format!("32{:06}", std::process::id());
    let settings = json!({
        "idleLimitMs": 300,
        "beforeStop": {"argv": ["sleep", nap], "timeoutMs": 600000},
    });
    make(&server, "a", settings).await;
    start(&server, "a").await;
    for round in 1..=3 {
        eventually("it is about to be stopped", SOON, || async {
            (processes(&nap).len() == 1).then_some(())
        })
        .await;
        match round {
            1 => assert_eq!(server.exec("a", &["echo", "x"]).await["stdout"], "x\n"),
            2 => drop(server.post("/v1/sandboxes/a/touch", Value::Null).await.expect(204)),
            _ => {
                let body = Some(b"bytes".to_vec());
                let path = "/v1/sandboxes/a/files/f";
                server.send("PUT", path, &[], body).await.expect("an answer").expect(200);
            }
        }
        // What was under way for the stop is ended with it.
        eventually("it is given up", SOON, || async {
            let told = kinds(&events(&server, Some("a")).await)
                .iter()
                .filter(|k| **k == "sandbox.stopping")
                .count();
            (told > round || processes(&nap).is_empty()).then_some(())
        })
        .await;
    }
    let record = server.get("/sandboxes/a").await.expect(200);
    assert_eq!((&record["state"], &record["starts"]), (&json!("running"), &json!(1)));
    // A destroy waits for nothing.
    server.delete("/v1/sandboxes/a").await.expect(204);
    assert!(processes(&nap).is_empty());
    let all = events(&server, Some("a")).await;
    assert_eq!(kinds(&all)[all.len() - 2..], ["sandbox.stopped", "sandbox.destroyed"]);
    assert_eq!(all[all.len() - 2]["data"]["cause"], "destroyed");
}

#[tokio::test]
async fn an_instance_that_ends_by_itself_or_is_destroyed_does_nothing() {
    let server = Server::start().await;
    let before = json!({"argv": ["sh", "-c", "echo x > kept"], "timeoutMs": 30000});
    make(&server, "a", json!({"beforeStop": before, "entrypoint": ["true"]})).await;
    start(&server, "a").await;
    until(&server, "a", "sandbox.stopped").await;
    assert_eq!(file(&server, "a", "kept").await, None);
    assert!(!kinds(&events(&server, Some("a")).await).contains(&"sandbox.stopping"));
    make(&server, "b", json!({"beforeStop": before})).await;
    start(&server, "b").await;
    server.delete("/v1/sandboxes/b").await.expect(204);
    assert!(!kinds(&events(&server, Some("b")).await).contains(&"sandbox.stopping"));
}

#[tokio::test]
async fn without_a_command_whoever_is_told_has_the_time() {
    let server = short().await;
    let before = json!({"timeoutMs": 60000});
    make(&server, "a", json!({"idleLimitMs": 300, "beforeStop": before})).await;
    start(&server, "a").await;
    until(&server, "a", "sandbox.stopping").await;
    let record = server.get("/sandboxes/a").await.expect(200);
    assert_eq!(record["state"], "running");
    server.exec("a", &["true"]).await;
    assert_eq!(server.get("/sandboxes/a").await.expect(200)["starts"], 1);
    // The server would wait at its end.
    server.delete("/v1/sandboxes/a").await.expect(204);
}

#[tokio::test]
async fn settings_that_cannot_be_are_refused() {
    let server = Server::start().await;
    for before in [
        json!({"argv": [], "timeoutMs": 1}),
        json!({"argv": [""], "timeoutMs": 1}),
        json!({"argv": ["a\u{0}b"], "timeoutMs": 1}),
        json!({"timeoutMs": 600_001}),
        json!({"timeoutMs": -1}),
        json!({"argv": "true"}),
        json!({"timeoutMs": 1, "eggs": 1}),
    ] {
        let answer = server.put("/v1/sandboxes/a", json!({ "beforeStop": before })).await;
        let error = answer.expect_error(400, "VALIDATION_FAILED");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("beforeStop") || message.contains("eggs"), "{before}: {error}");
    }
}
