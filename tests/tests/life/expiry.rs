//! What expires, what a destroy deletes, what a stop keeps.

use crate::rig::{SOON, info, make, ms, record, sh, stop, stops, until_stops};
use e2e::{Server, eventually};
use serde_json::{Value, json};

#[tokio::test]
async fn an_expired_sandbox_is_empty_and_still_listed() {
    let server = Server::start().await;
    make(&server, "old", json!({"envVars": {"A": "1"}, "idleTtlMs": 2000})).await;
    make(&server, "other", json!({})).await;
    let made = info(&server, "old").await;
    sh(&server, "old", "echo $A > /workspace/f").await;
    let before = info(&server, "old").await;
    let ttl = ms(&before["expiresAt"]) - ms(&before["record"]["lastActivity"]);
    assert_eq!(ttl, 2000, "{before}");
    let stop = until_stops(&server, "old", 1).await;
    assert_eq!((&stop["reason"], &stop["cause"]), (&json!("expired"), &json!("expired")));
    assert!(ms(&stop["stoppedAt"]) - ms(&record(&server, "old").await["lastActivity"]) >= 2000);
    let after = eventually("it is empty", SOON, || async {
        let info = info(&server, "old").await;
        (info["workspace"]["files"] == 0).then_some(info)
    })
    .await;
    assert_eq!(after["envVars"], json!({}));
    assert_eq!(after["running"], false);
    assert_eq!(after["expiresAt"], Value::Null);
    assert_eq!(after["createdAt"], made["createdAt"]);
    let listed = json!([
        {"session": "old", "running": false},
        {"session": "other", "running": false},
    ]);
    assert_eq!(server.get("/users/local/sandboxes").await.expect(200), listed);
    // The next command finds nothing of before, and it lives again.
    let patch = json!({"idleTtlMs": 600_000});
    server.json("PATCH", "/v1/sandboxes/old", patch).await.expect(200);
    let result = sh(&server, "old", "ls -A /workspace; echo [$A]").await;
    assert_eq!(result["stdout"], "[]\n");
    let again = info(&server, "old").await;
    assert_eq!(again["createdAt"], made["createdAt"]);
    assert_eq!(ms(&again["expiresAt"]) - ms(&again["record"]["lastActivity"]), 600_000);
    assert_eq!(again["record"]["starts"], 2);
}

#[tokio::test]
async fn a_sandbox_that_never_ran_expires_too() {
    let server = Server::start().await;
    make(&server, "a", json!({"envVars": {"A": "1"}, "idleTtlMs": 700})).await;
    eventually("it expires", SOON, || async {
        let info = info(&server, "a").await;
        (info["expiresAt"] == Value::Null && info["envVars"] == json!({})).then_some(())
    })
    .await;
    assert_eq!(record(&server, "a").await, Value::Null, "an expiry makes no record");
    assert_eq!(stops(&server, "a").await, Vec::<Value>::new());
    // Whoever configures it uses it: it does not expire at once.
    let patch = json!({"envVars": {"B": "2"}, "idleTtlMs": 600_000});
    server.json("PATCH", "/v1/sandboxes/a", patch).await.expect(200);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let info = info(&server, "a").await;
    assert_eq!(info["envVars"], json!({"B": "2"}));
    assert_ne!(info["expiresAt"], Value::Null);
    assert_eq!(sh(&server, "a", "echo $A$B").await["stdout"], "2\n");
}

#[tokio::test]
async fn without_a_ttl_nothing_expires() {
    let server = Server::with(&["--idle-ttl", "0"]).await;
    let info = make(&server, "a", json!({})).await;
    assert_eq!(info["expiresAt"], Value::Null);
    let info = make(&server, "b", json!({"idleTtlMs": 60_000})).await;
    let used = info["lastUsed"].as_str().unwrap();
    assert_eq!(types::iso8601(ms(&info["expiresAt"]) - 60_000), used);
}

#[tokio::test]
async fn a_destroy_takes_the_alarm_and_the_workspace_along() {
    let server = Server::start().await;
    make(&server, "a", json!({"idleTtlMs": 1500, "envVars": {"A": "1"}})).await;
    sh(&server, "a", "echo secret > /workspace/f").await;
    let object = server.data.join("sandboxes").join(Server::object("local", "a"));
    assert!(object.join("workspace/f").exists());
    server.delete("/v1/sandboxes/a").await.expect(204);
    assert!(!object.join("workspace/f").exists(), "the workspace is still there");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    server.get("/v1/sandboxes/a").await.expect_error(404, "SANDBOX_NOT_FOUND");
    assert_eq!(server.get("/users/local/sandboxes").await.expect(200), json!([]));
    let old = stops(&server, "a").await;
    assert_eq!(old.len(), 1);
    assert_eq!(old[0]["cause"], "destroyed");
    // A new one of the same name has nothing of it, but the history goes on.
    let result = sh(&server, "a", "ls -A /workspace; echo [$A]").await;
    assert_eq!(result["stdout"], "[]\n");
    assert_eq!(record(&server, "a").await["starts"], 1);
    stop(&server, "a").await;
    let both = stops(&server, "a").await;
    assert_eq!(both.len(), 2);
    assert_eq!(both[1], old[0]);
    assert_eq!(both[0]["generation"], 2);
}

#[tokio::test]
async fn the_workspace_survives_stops_and_the_root_does_not() {
    let server = Server::start().await;
    let write = "head -c 3000000 /dev/urandom > /workspace/f; touch /etc/marker /root/marker; \
         sha256sum < /workspace/f";
    let sum = sh(&server, "a", write).await["stdout"].clone();
    for _ in 0..3 {
        stop(&server, "a").await;
        let look = "ls /etc/marker /root/marker 2>/dev/null; sha256sum < /workspace/f";
        assert_eq!(sh(&server, "a", look).await["stdout"], sum);
    }
    // Written to at the moment of the stop: what a command was told to be done is there.
    let result = sh(&server, "a", "echo last > /workspace/last").await;
    assert_eq!(result["exitCode"], 0);
    stop(&server, "a").await;
    assert_eq!(sh(&server, "a", "cat /workspace/last").await["stdout"], "last\n");
}
