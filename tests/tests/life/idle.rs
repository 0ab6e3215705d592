//! Idle and busy (section 6 of the contract).

use crate::rig::{
    SOON, begin_and_freeze, make, ms, nap, record, sh, stops, until_gone, until_stops,
};
use e2e::{Builder, Server, eventually};
use serde_json::{Value, json};
use std::time::Duration;

/// A server whose checks come often.
pub async fn quick(idle_limit: &str) -> Server {
    Builder::default()
        .args(&["--check-interval", "500ms", "--inactivity-timeout", "60s"])
        .args(&["--idle-limit", idle_limit])
        .start()
        .await
}

fn assert_not_early(stop: &Value, record: &Value, limit: i64) {
    assert_eq!(stop["reason"], "idle", "{stop}");
    assert_eq!(stop["cause"], "idle", "{stop}");
    assert_eq!(stop["exitCode"], Value::Null, "{stop}");
    let quiet = ms(&stop["stoppedAt"]) - ms(&record["lastActivity"]);
    assert!(quiet >= limit, "stopped after {quiet} ms: {stop} {record}");
}

#[tokio::test]
async fn what_is_idle_stops_and_never_early() {
    let server = quick("1500ms").await;
    let nap = nap();
    // A child in the background does not hold it.
    sh(&server, "a", &format!("setsid sleep {nap} >/dev/null 2>&1 &")).await;
    let stop = until_stops(&server, "a", 1).await;
    assert_not_early(&stop, &record(&server, "a").await, 1500);
    until_gone(&nap).await;
    // Again, and from an activity that began before the limit and ended after it.
    let slept = server.exec("a", &["sleep", "4.5"]).await;
    assert_eq!(slept["exitCode"], 0, "stopped while busy: {slept}");
    assert_eq!(stops(&server, "a").await.len(), 1, "stopped while busy");
    let stop = until_stops(&server, "a", 2).await;
    let record = record(&server, "a").await;
    assert_not_early(&stop, &record, 1500);
    assert!(ms(&record["lastActivity"]) - ms(&record["startedAt"]) >= 4500, "{record}");
}

#[tokio::test]
async fn a_command_holds_its_sandbox_over_a_kill_of_the_server() {
    let mut server = quick("1s").await;
    let nap = nap();
    // The name of the file carries the number, so that it can be found from outside.
    let script = format!("sleep 5; echo ok > /workspace/f{nap}; exit 6");
    begin_and_freeze(&server, "a", &script, &nap).await;
    server.kill();
    server.restart().await;
    let execution = eventually("the command ends", SOON, || async {
        let all = server.get("/v1/sandboxes/a/executions").await.expect(200);
        let newest = all[0].clone();
        assert_ne!(newest["status"], "unknown", "{newest}");
        (newest["status"] == "exited").then_some(newest)
    })
    .await;
    assert_eq!(execution["exitCode"], 6, "{execution}");
    let stop = until_stops(&server, "a", 1).await;
    assert_eq!(stop["reason"], "idle", "{stop}");
    let quiet = ms(&stop["stoppedAt"]) - ms(&execution["endedAt"]);
    assert!(quiet >= 1000, "{quiet} ms after the command's end: {stop} {execution}");
    assert_eq!(record(&server, "a").await["starts"], 1);
    let found = sh(&server, "a", &format!("cat /workspace/f{nap}")).await;
    assert_eq!(found["stdout"], "ok\n");
}

#[tokio::test]
async fn a_long_command_counts_to_its_end_also_after_a_kill() {
    let mut server = quick("3s").await;
    let result = server.exec("a", &["sleep", "4"]).await;
    assert_eq!(result["exitCode"], 0);
    // Killed within the second in which activity is written together.
    eventually("the end is in the history", SOON, || async {
        let all = server.get("/v1/sandboxes/a/executions").await.expect(200);
        (all[0]["status"] == "exited").then_some(())
    })
    .await;
    let all = server.get("/v1/sandboxes/a/executions").await.expect(200);
    let ended = ms(&all[0]["endedAt"]);
    server.kill();
    server.restart().await;
    let stop = until_stops(&server, "a", 1).await;
    assert_eq!(stop["reason"], "idle");
    let quiet = ms(&stop["stoppedAt"]) - ended;
    assert!(quiet >= 3000, "stopped {quiet} ms after the end of its command");
}

#[tokio::test]
async fn touching_prolongs_and_looking_does_not() {
    let server = quick("4s").await;
    for id in ["touched", "seen"] {
        server.exec(id, &["true"]).await;
    }
    let seen = eventually("the one that is only looked at stops", SOON, || async {
        server.post("/v1/sandboxes/touched/touch", Value::Null).await.expect(204);
        for path in ["", "/stops", "/logs", "/executions"] {
            server.get(&format!("/v1/sandboxes/seen{path}")).await.expect(200);
        }
        server.get("/users/local/sandboxes").await.expect(200);
        server.get("/v1/sandboxes?prefix=s").await.expect(200);
        record(&server, "seen").await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        stops(&server, "seen").await.first().cloned()
    })
    .await;
    assert_not_early(&seen, &record(&server, "seen").await, 4000);
    assert_eq!(stops(&server, "touched").await, Vec::<Value>::new());
    let stop = until_stops(&server, "touched", 1).await;
    assert_not_early(&stop, &record(&server, "touched").await, 4000);
    // What is stopped is not started by a touch nor by a look.
    server.post("/v1/sandboxes/touched/touch", Value::Null).await.expect(204);
    assert_eq!(record(&server, "touched").await["state"], "stopped");
    assert_eq!(record(&server, "touched").await["starts"], 1);
}

#[tokio::test]
async fn an_idle_limit_of_zero_is_never() {
    let server = quick("300ms").await;
    make(&server, "never", json!({"idleLimitMs": 0, "idleTtlMs": 0})).await;
    server.exec("never", &["true"]).await;
    for round in 1..=4 {
        server.exec("soon", &["true"]).await;
        until_stops(&server, "soon", round).await;
    }
    assert_eq!(record(&server, "never").await["state"], "running");
    // And it is a limit again when it gets one.
    let patch = json!({"idleLimitMs": 200});
    server.json("PATCH", "/v1/sandboxes/never", patch).await.expect(200);
    assert_eq!(until_stops(&server, "never", 1).await["reason"], "idle");
}

#[tokio::test]
async fn a_stream_and_its_command_hold_and_a_vanished_client_does_not() {
    let server = quick("1s").await;
    let nap = nap();
    let request = server
        .http
        .post(format!("{}/v1/sandboxes/a/exec", server.url))
        .header("accept", "application/x-ndjson")
        .header("content-type", "application/json")
        .body(json!({"argv": ["sleep", nap]}).to_string());
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(stops(&server, "a").await, Vec::<Value>::new());
    drop(answer);
    until_gone(&nap).await;
    assert_eq!(until_stops(&server, "a", 1).await["reason"], "idle");
}
