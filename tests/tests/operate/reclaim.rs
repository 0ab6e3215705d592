//! When the machine is short of memory idle instances go, the one that was active longest ago
//! first, and busy ones never.

use crate::rig::{SOON, record, run, with_file};
use e2e::{Answer, eventually};
use serde_json::{Value, json};
use std::time::Duration;

#[track_caller]
fn short(answer: &Answer) {
    let body = answer.expect_error(503, "MEMORY_SHORT");
    assert_eq!(body["context"]["what"], "memory");
    assert_eq!(body["retryable"], true);
    assert!(answer.headers.iter().any(|(name, _)| name == "retry-after"));
}

#[tokio::test]
async fn heavy_idle_instances_go_in_turn_and_a_busy_one_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = with_file(directory.path(), "").keeps_instances().start().await;
    for id in ["busy", "c", "a", "b"] {
        run(&server, id, &["true"], "").await.expect(200);
    }
    // Active again: now it is the last of the three.
    run(&server, "c", &["true"], "").await.expect(200);
    let work = json!({ "argv": ["sleep", "6"] });
    let url = format!("{}/v1/sandboxes/busy/exec", server.url);
    let work = tokio::spawn(server.http.post(url).json(&work).send());
    eventually("it runs", SOON, || async {
        let all = server.get("/v1/sandboxes/busy/executions").await.json();
        (all[0]["status"] == "running").then_some(())
    })
    .await;
    server.kill();
    let _ = work.await;
    // From now on the machine has too little.
    with_file(directory.path(), "[memory]\nreserve = \"1000TiB\"\n");
    server.restart().await;
    let mut stopped = Vec::new();
    for id in ["a", "b", "c"] {
        let record = eventually("it is reclaimed", SOON, || async {
            let record = record(&server, id).await;
            (record["state"] == "stopped").then_some(record)
        })
        .await;
        assert_eq!(
            (&record["reason"], &record["cause"]),
            (&json!("reclaimed"), &json!("reclaimed"))
        );
        assert_eq!(record["exitCode"], Value::Null);
        stopped.push(record["stoppedAt"].as_i64().unwrap());
    }
    assert!(stopped.is_sorted(), "the one that was active longest ago is first: {stopped:?}");
    // A command that outlived its server is as busy as any.
    let all = server.get("/v1/sandboxes/busy/executions").await.json();
    if all[0]["status"] == "running" {
        assert_eq!(record(&server, "busy").await["state"], "running");
    } else {
        assert_eq!(all[0]["exitCode"], 0, "it was not ended by anybody: {all}");
    }
    // Nothing more is started, and who is told so may come again.
    short(&run(&server, "new", &["true"], "").await);
    short(&server.post("/v1/sandboxes/a/start", Value::Null).await);
    assert_eq!(server.get("/v1/sandboxes/new").await.status, 404, "nothing of it is left");
    eventually("the busy one goes once it is idle", SOON, || async {
        let record = record(&server, "busy").await;
        (record["cause"] == "reclaimed").then_some(())
    })
    .await;
    let all = server.get("/v1/sandboxes/busy/executions").await.json();
    assert_eq!(all[0]["exitCode"], 0, "the command ran to its end: {all}");
    assert_eq!(server.stop_lines().len(), 4);
    // With room again all is as before.
    server.terminate();
    with_file(directory.path(), "");
    server.restart().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    run(&server, "a", &["true"], "").await.expect(200);
}

#[tokio::test]
async fn what_a_start_counts_for_is_the_operator_s_choice() {
    let directory = tempfile::tempdir().expect("a directory");
    // Taken at its word, an instance of this size finds no room on any machine.
    let server = with_file(directory.path(), "[memory]\novercommit = 1\n").start().await;
    let settings = json!({ "memoryMib": 4_000_000 });
    server.put("/v1/sandboxes/huge", settings).await.expect(201);
    run(&server, "idle", &["true"], "").await.expect(200);
    short(&run(&server, "huge", &["true"], "").await);
    assert_eq!(record(&server, "idle").await["cause"], "reclaimed", "it was tried");
    run(&server, "idle", &["true"], "").await.expect(200);
    let waited = run(&server, "huge", &["true"], "?waitMs=500").await;
    short(&waited);
}
