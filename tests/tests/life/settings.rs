//! Making, changing, touching (issue 2, point 6; section 8 of the contract).

use crate::rig::{info, keys, make, sh, stop, until_stops};
use e2e::Server;
use serde_json::{Value, json};

#[tokio::test]
async fn put_is_new_the_same_or_a_conflict() {
    let server = Server::start().await;
    let path = "/v1/sandboxes/a";
    let body = json!({"idleLimitMs": 1000, "envVars": {"A": "1"}, "pids": 99});
    let new = server.put(path, body.clone()).await.expect(201);
    assert_eq!(new["settings"]["pids"], 99);
    assert_eq!(server.put(path, body).await.expect(200)["createdAt"], new["createdAt"]);
    server.put(path, json!({})).await.expect(200);
    for (field, body) in [
        ("idleLimitMs", json!({"idleLimitMs": 1001})),
        ("envVars", json!({"envVars": {"A": "2"}})),
        ("envVars", json!({"envVars": {}})),
        ("pids", json!({"pids": 98})),
        ("entrypoint", json!({"entrypoint": ["sleep", "1"]})),
        ("vcpu", json!({"vcpu": 0.5})),
        ("env", json!({"env": {"B": "1"}})),
        ("diskMb", json!({"diskMb": 1})),
        ("memoryMib", json!({"memoryMib": 64})),
        ("checkIntervalMs", json!({"checkIntervalMs": 7000})),
        ("inactivityTimeoutMs", json!({"inactivityTimeoutMs": 70_000})),
        ("idleTtlMs", json!({"idleTtlMs": 0})),
    ] {
        let error = server.put(path, body).await.expect_error(409, "SETTINGS_CONFLICT");
        assert!(error["message"].as_str().unwrap().contains(field), "{field}: {error}");
        assert_eq!(error["context"]["field"], field);
    }
    let after = info(&server, "a").await;
    assert_eq!(after["settings"], new["settings"]);
    assert_eq!(after["envVars"], json!({"A": "1"}));
}

#[tokio::test]
async fn info_has_what_the_contract_names() {
    let server = Server::start().await;
    let info = make(&server, "a", json!({})).await;
    let all = [
        "contexts",
        "createdAt",
        "envVars",
        "expiresAt",
        "id",
        "labels",
        "lastUsed",
        "owner",
        "record",
        "running",
        "settings",
        "workspace",
    ];
    assert_eq!(keys(&info), all);
    assert_eq!(info["contexts"], json!([]));
    assert_eq!(info["workspace"], json!({"files": 0, "bytes": 0}));
    assert_eq!((&info["id"], &info["owner"]), (&json!("a"), &json!("local")));
    let expected = json!({
        "image": "host", "entrypoint": null, "env": {}, "enableInternet": false,
        "idleLimitMs": 600_000, "checkIntervalMs": 60_000, "inactivityTimeoutMs": 300_000,
        "idleTtlMs": 2_592_000_000_i64, "memoryMib": 512, "vcpu": 1.0, "pids": 512, "diskMb": 2000,
    });
    assert_eq!(info["settings"], expected);
    sh(&server, "a", "mkdir d; printf 12345 > d/f; ln -s d l").await;
    let info = crate::rig::info(&server, "a").await;
    assert_eq!(info["workspace"], json!({"files": 3, "bytes": 5}));
    assert_eq!(info["running"], true);
    assert_eq!(info["record"]["state"], "running");
}

#[tokio::test]
async fn variables_are_set_and_removed() {
    let server = Server::start().await;
    make(&server, "a", json!({"envVars": {"A": "1", "B": "2"}})).await;
    let see = "echo ${A-none} ${B-none} ${C-none}";
    assert_eq!(sh(&server, "a", see).await["stdout"], "1 2 none\n");
    let patch = json!({"envVars": {"A": null, "C": "3"}});
    let patched = server.json("PATCH", "/v1/sandboxes/a", patch).await.expect(200);
    assert_eq!(patched["envVars"], json!({"B": "2", "C": "3"}));
    // They are those of commands: the running instance's next one has them.
    assert_eq!(sh(&server, "a", see).await["stdout"], "none 2 3\n");
    stop(&server, "a").await;
    assert_eq!(sh(&server, "a", see).await["stdout"], "none 2 3\n");
    for name in ["", "1A", "A-B", "A=B", "A B"] {
        let patch = json!({"envVars": {name: "x"}});
        let answer = server.json("PATCH", "/v1/sandboxes/a", patch).await;
        answer.expect_error(400, "VALIDATION_FAILED");
    }
    assert_eq!(info(&server, "a").await["envVars"], json!({"B": "2", "C": "3"}));
}

#[tokio::test]
async fn a_patched_time_counts_at_once() {
    let server = Server::start().await;
    make(&server, "a", json!({"idleLimitMs": 3_600_000})).await;
    server.exec("a", &["true"]).await;
    let patch = json!({"idleLimitMs": 300});
    server.json("PATCH", "/v1/sandboxes/a", patch).await.expect(200);
    assert_eq!(until_stops(&server, "a", 1).await["reason"], "idle");
}

#[tokio::test]
async fn times_that_cannot_be_are_refused() {
    let server = Server::start().await;
    make(&server, "a", json!({})).await;
    for (field, body) in [
        ("inactivityTimeoutMs", json!({"inactivityTimeoutMs": 60_000})),
        ("inactivityTimeoutMs", json!({"inactivityTimeoutMs": 0})),
        ("inactivityTimeoutMs", json!({"inactivityTimeoutMs": 21_600_001})),
        ("inactivityTimeoutMs", json!({"checkIntervalMs": 300_000})),
        ("checkIntervalMs", json!({"checkIntervalMs": 0})),
        ("idleLimitMs", json!({"idleLimitMs": -1})),
        ("idleLimitMs", json!({"idleLimitMs": 1.5})),
        ("idleTtlMs", json!({"idleTtlMs": "1d"})),
    ] {
        for (method, path) in [("PUT", "/v1/sandboxes/b"), ("PATCH", "/v1/sandboxes/a")] {
            let answer = server.json(method, path, body.clone()).await;
            let error = answer.expect_error(400, "VALIDATION_FAILED");
            assert!(error["message"].as_str().unwrap().contains(field), "{body}: {error}");
        }
    }
    server.get("/v1/sandboxes/b").await.expect_error(404, "SANDBOX_NOT_FOUND");
}

#[tokio::test]
async fn what_is_unknown_is_not_found() {
    let server = Server::start().await;
    for (method, path) in [
        ("GET", "/v1/sandboxes/none"),
        ("PATCH", "/v1/sandboxes/none"),
        ("POST", "/v1/sandboxes/none/touch"),
        ("POST", "/v1/sandboxes/none/stop"),
        ("GET", "/v1/sandboxes/none/stops"),
        ("GET", "/v1/sandboxes/none/logs"),
        ("GET", "/v1/sandboxes/none/executions"),
    ] {
        let body = if method == "PATCH" { json!({}) } else { Value::Null };
        let answer = server.json(method, path, body).await;
        answer.expect_error(404, "SANDBOX_NOT_FOUND");
    }
    server.delete("/v1/sandboxes/none").await.expect(204);
    let list = server.get("/users/local/sandboxes").await.expect(200);
    assert_eq!(list, json!([]), "a question made a sandbox");
}
