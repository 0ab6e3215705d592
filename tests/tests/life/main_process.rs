//! How the main process ends, and what is told of it.

use crate::rig::{SOON, make, nap, record, run, start, stop, stops, until_gone, until_stops};
use e2e::{Server, eventually, read_instance};
use serde_json::{Value, json};
use std::collections::HashMap;

#[tokio::test]
async fn each_end_is_told_once_with_its_true_reason() {
    let server = Server::start().await;
    let idle = "while :; do sleep 0.05; done";
    let cases = [
        ("zero", "sleep 0.2; exit 0", 0, "exited"),
        ("seven", "sleep 0.2; exit 7", 7, "exited"),
        ("at-once", "exit 0", 0, "exited"),
        ("killed", "sleep 0.2; kill -KILL $$", 137, "signalled"),
        ("ended", "sleep 0.2; kill -TERM $$", 143, "signalled"),
        // `exec`, so that it is the main process that grows.
        ("greedy", "exec tail /dev/zero", 137, "oom"),
        ("init", idle, 137, "signalled"),
    ];
    for (id, script, ..) in cases {
        make(&server, id, json!({"entrypoint": ["sh", "-c", script], "memoryMib": 32})).await;
    }
    let starts = cases.map(|(id, ..)| {
        let server = &server;
        async move {
            let answer = server.post(&format!("/v1/sandboxes/{id}/start"), Value::Null).await;
            assert_eq!(answer.status, 200, "{id}: {}", answer.text());
        }
    });
    futures::future::join_all(starts).await;
    let pid = read_instance(&server.data, &Server::object("local", "init")).unwrap()["pid"].clone();
    let pid = rustix::process::Pid::from_raw(pid.as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    for (id, _, code, cause) in cases {
        let stop = until_stops(&server, id, 1).await;
        assert_eq!(stop["reason"], "exited", "{id}: {stop}");
        assert_eq!(stop["cause"], cause, "{id}: {stop}");
        assert_eq!(stop["exitCode"], code, "{id}: {stop}");
        let record = record(&server, id).await;
        assert_eq!(record["state"], "stopped", "{id}");
        for key in ["reason", "cause", "exitCode", "stoppedAt", "startedAt"] {
            assert_eq!(record[key], stop[key], "{id}: {key}");
        }
    }
    // One line each on standard output, and no second one afterwards.
    let mut lines: HashMap<String, Vec<Value>> = HashMap::new();
    eventually("a line of each stop", SOON, || {
        for line in server.stop_lines() {
            lines.entry(line["sandbox"].as_str().unwrap().to_owned()).or_default().push(line);
        }
        let all = lines.len() == cases.len();
        async move { all.then_some(()) }
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(server.stop_lines().is_empty());
    for (id, _, code, cause) in cases {
        let [line] = lines[id].as_slice() else { panic!("{id}: {:?}", lines[id]) };
        assert_eq!(line["event"], "sandbox.stopped");
        assert_eq!(line["reason"], "exited");
        assert_eq!(line["exitCode"], code);
        assert_eq!(line["cause"], cause);
        assert_eq!(stops(&server, id).await.len(), 1, "{id}");
    }
    // And each runs again.
    for (id, ..) in cases {
        assert_eq!(start(&server, id).await["record"]["starts"], 2, "{id}");
    }
}

#[tokio::test]
async fn a_command_is_told_why_its_instance_ended() {
    let server = Server::start().await;
    let script = "while [ ! -e /workspace/go ]; do sleep 0.05; done; exit 9";
    make(&server, "a", json!({"entrypoint": ["sh", "-c", script]})).await;
    start(&server, "a").await;
    let answer = run(&server, "a", &["sh", "-c", "touch /workspace/go; sleep 1000000"]).await;
    let error = answer.expect_error(409, "INSTANCE_STOPPED");
    assert_eq!(error["retryable"], false);
    let expected = json!({"reason": "exited", "cause": "exited", "exitCode": 9});
    assert_eq!(error["context"], expected);
}

#[tokio::test]
async fn a_main_process_may_end_within_its_grace() {
    let server = Server::start().await;
    let script = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done";
    make(&server, "a", json!({"entrypoint": ["sh", "-c", script]})).await;
    start(&server, "a").await;
    let logs = || async { server.get("/v1/sandboxes/a/logs").await.text() };
    eventually("it is up", SOON, || async { logs().await.contains("up").then_some(()) }).await;
    let body = json!({"reason": "lunch break", "graceMs": 600_000});
    // It does not wait for the grace to pass.
    server.post("/v1/sandboxes/a/stop", body).await.expect(204);
    let record = record(&server, "a").await;
    assert_eq!(record["reason"], "lunch break");
    assert_eq!(record["cause"], "stopped");
    assert_eq!(record["exitCode"], Value::Null);
    assert!(logs().await.contains("bye"), "it was not asked to end");
}

#[tokio::test]
async fn a_main_process_that_will_not_end_is_killed() {
    let server = Server::start().await;
    let nap = nap();
    let script = format!("trap '' TERM; echo up; sleep {nap} & while :; do wait; done");
    make(&server, "a", json!({"entrypoint": ["sh", "-c", script]})).await;
    start(&server, "a").await;
    eventually("it is up", SOON, || async {
        server.get("/v1/sandboxes/a/logs").await.text().contains("up").then_some(())
    })
    .await;
    let body = json!({"graceMs": 300});
    server.post("/v1/sandboxes/a/stop", body).await.expect(204);
    assert_eq!(record(&server, "a").await["reason"], "stopped");
    until_gone(&nap).await;
}

#[tokio::test]
async fn a_second_stop_shortens_the_grace_and_the_first_reason_stands() {
    let server = Server::start().await;
    let script = "trap '' TERM; echo up; while :; do sleep 0.05; done";
    make(&server, "a", json!({"entrypoint": ["sh", "-c", script]})).await;
    start(&server, "a").await;
    eventually("it is up", SOON, || async {
        server.get("/v1/sandboxes/a/logs").await.text().contains("up").then_some(())
    })
    .await;
    let slow = server.post("/v1/sandboxes/a/stop", json!({"reason": "slow", "graceMs": 600_000}));
    let second = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        server.post("/v1/sandboxes/a/stop", json!({"reason": "fast"})).await
    };
    let (slow, second) = tokio::join!(slow, second);
    slow.expect(204);
    second.expect(204);
    let stops = stops(&server, "a").await;
    assert_eq!(stops.len(), 1);
    assert_eq!(stops[0]["reason"], "slow");
}

#[tokio::test]
async fn a_reason_has_its_rules() {
    let server = Server::start().await;
    server.exec("a", &["true"]).await;
    for reason in [json!(""), json!("x".repeat(201)), json!("a\0b"), json!(7)] {
        let body = json!({"reason": reason});
        let error = server.post("/v1/sandboxes/a/stop", body).await;
        let error = error.expect_error(400, "VALIDATION_FAILED");
        assert!(error["message"].as_str().unwrap().contains("reason"), "{error}");
    }
    assert_eq!(record(&server, "a").await["state"], "running");
    let reason = "\u{1F980}".repeat(200);
    server.post("/v1/sandboxes/a/stop", json!({"reason": reason})).await.expect(204);
    assert_eq!(record(&server, "a").await["reason"], reason);
    stop(&server, "a").await;
    assert_eq!(record(&server, "a").await["reason"], reason);
}
