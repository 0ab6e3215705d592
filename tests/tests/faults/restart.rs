//! The server goes and comes back: planned, upgraded, stopped for a while, or with the machine.

use crate::common::*;
use base64::Engine as _;
use e2e::{Builder, Server, eventually};
use rustix::process::Signal;
use serde_json::json;
use sha2::Digest as _;

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_restart_kills_no_work() {
    let mut server = Builder::default().keeps_instances().start().await;
    server.exec("a", &["true"]).await;
    let (init, before) = (of_instance(&server, "a", "pid"), record(&server, "a").await);
    let attached = aside(&server, "a", coded("t1", 61, "6"));
    running(&server, "a", "t1").await;
    // One more whose client reads it event by event.
    let url = format!("{}/v1/sandboxes/a/exec", server.url);
    let http = server.http.clone();
    let streamed = tokio::spawn(async move {
        let request = http
            .post(url)
            .header("content-type", "application/json")
            .header("accept", "application/x-ndjson")
            .body(coded("t2", 62, "6").to_string());
        // Cut by the server's end: then there is no text.
        request.send().await.ok()?.text().await.ok()
    });
    running(&server, "a", "t2").await;
    let status = server.terminate();
    assert!(status.success(), "{status}");
    assert!(attached.await.expect("a task").is_none(), "the server ended before the command");
    // A stream without `exit` is unknown; it must not pretend.
    let told = streamed.await.expect("a task").unwrap_or_default();
    assert!(!told.contains("\"type\":\"exit\""), "{told}");
    server.restart().await;
    assert_eq!(ended(&server, "a", "t1").await["exitCode"], 61);
    assert_eq!(ended(&server, "a", "t2").await["exitCode"], 62);
    assert_eq!(workspace_file(&server, "a", "t1").as_deref(), Some("61\n"));
    assert_eq!(of_instance(&server, "a", "pid"), init);
    let after = record(&server, "a").await;
    assert_eq!((&after["state"], &after["startedAt"]), (&json!("running"), &before["startedAt"]));
    assert!(stops(&server, "a").await.is_empty());
    server.delete("/v1/sandboxes/a").await.expect(204);
    leaves_nothing(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_end_with_stop_on_exit_records_every_stop() {
    let mut server = Server::start().await;
    for id in ["a", "b", "c"] {
        server.exec(id, &["true"]).await;
    }
    let pids = ["a", "b", "c"].map(|id| of_instance(&server, id, "pid"));
    assert!(server.terminate().success());
    assert!(!pids.into_iter().any(lives));
    server.restart().await;
    leaves_nothing(&server).await;
    for id in ["a", "b", "c"] {
        let stops = stops(&server, id).await;
        assert_eq!((stops.len(), &stops[0]["reason"]), (1, &json!("stopped")), "{stops:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_adopts_what_the_previous_release_left() {
    let old = Builder::default().env("SANDKEEP_TEST_PROTOCOL", "1");
    let data = tempfile::Builder::new().prefix("sandkeep-").tempdir().expect("a directory");
    let mut server = old.data(data.path()).start().await;
    server.exec("a", &["true"]).await;
    assert_eq!(of_instance(&server, "a", "version"), 1);
    let (init, before) = (of_instance(&server, "a", "pid"), record(&server, "a").await);
    let in_flight = aside(&server, "a", coded("t1", 63, "2"));
    running(&server, "a", "t1").await;
    server.kill();
    let _ = in_flight.await;
    let _old = server;
    let new = Builder::default().data(data.path()).start().await;
    assert_eq!(ended(&new, "a", "t1").await["exitCode"], 63);
    assert_eq!(new.exec("a", &["echo", "x"]).await["stdout"], "x\n");
    assert_eq!(of_instance(&new, "a", "pid"), init);
    assert_eq!(record(&new, "a").await["startedAt"], before["startedAt"]);
    // It has no such message: the setting counts from the next start on.
    let body = json!({ "inactivityTimeoutMs": 120_000 });
    new.json("PATCH", "/v1/sandboxes/a", body).await.expect(200);
    new.post("/v1/sandboxes/a/stop", json!({ "reason": "upgraded" })).await.expect(204);
    let stops = stops(&new, "a").await;
    assert_eq!((stops.len(), &stops[0]["reason"]), (1, &json!("upgraded")), "{stops:?}");
    new.exec("a", &["true"]).await;
    assert_eq!(of_instance(&new, "a", "version"), 2);
    new.delete("/v1/sandboxes/a").await.expect(204);
    leaves_nothing(&new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_stands_still_loses_no_byte() {
    const BYTES: usize = 20 << 20;
    let server = Server::start().await;
    server.exec("a", &["true"]).await;
    let script = format!("head -c {BYTES} /dev/urandom | tee /workspace/copy");
    let url = format!("{}/v1/sandboxes/a/exec", server.url);
    let body = json!({ "argv": ["sh", "-c", script] });
    let request = server
        .http
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/x-ndjson")
        .body(body.to_string());
    let reading = tokio::spawn(async move {
        use futures::StreamExt as _;
        let mut stream = request.send().await.expect("an answer").bytes_stream();
        let mut text = Vec::new();
        while let Some(bytes) = stream.next().await {
            text.extend_from_slice(&bytes.expect("no break"));
        }
        String::from_utf8(text).expect("JSON lines")
    });
    for _ in 0..4 {
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        server.signal(Signal::STOP);
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        server.signal(Signal::CONT);
    }
    let text = reading.await.expect("a task");
    let mut hash = sha2::Sha256::new();
    let mut length = 0;
    let mut last = json!(null);
    for (at, line) in text.lines().enumerate() {
        let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(event["seq"], at);
        if event["type"] == "stdout" {
            let data = event["data"].as_str().expect("text");
            let bytes = match event["encoding"].as_str() {
                Some("base64") => {
                    base64::engine::general_purpose::STANDARD.decode(data).expect("base64")
                }
                _ => data.as_bytes().to_vec(),
            };
            length += bytes.len();
            hash.update(&bytes);
        }
        last = event;
    }
    assert_eq!((&last["type"], &last["exitCode"]), (&json!("exit"), &json!(0)), "{last}");
    assert_eq!(length, BYTES);
    let object = Server::object("local", "a");
    let copy = server.data.join("sandboxes").join(object).join("workspace/copy");
    let copy = std::fs::read(copy).expect("the copy");
    assert_eq!(hash.finalize(), sha2::Sha256::digest(&copy));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_keeps_names_records_and_files() {
    let mut server = Server::start().await;
    server.exec("a", &["sh", "-c", "echo kept > /workspace/f"]).await;
    server.exec("b", &["true"]).await;
    server.post("/v1/sandboxes/b/stop", json!({ "reason": "enough" })).await.expect(204);
    server.put("/v1/sandboxes/c", json!({ "memoryMib": 100 })).await.expect(201);
    let supervisor = of_instance(&server, "a", "supervisor_pid");
    let init = of_instance(&server, "a", "pid");
    server.kill();
    // All at once, as the power does it.
    for pid in [supervisor, init] {
        kill(pid);
    }
    eventually("the end", LIMIT, || async { (!lives(supervisor) && !lives(init)).then_some(()) })
        .await;
    for entry in std::fs::read_dir(server.data.join("run")).expect("run").flatten() {
        std::fs::remove_dir_all(entry.path()).expect("removed");
    }
    server.restart().await;
    let list = server.get("/v1/sandboxes").await.expect(200);
    let names: Vec<_> =
        list["sandboxes"].as_array().expect("a list").iter().map(|s| s["id"].clone()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let a = stopped(&server, "a").await;
    assert_eq!((&a["reason"], &a["exitCode"]), (&json!("unknown"), &json!(null)), "{a}");
    assert_eq!(record(&server, "b").await["reason"], "enough");
    let c = server.get("/v1/sandboxes/c").await.expect(200);
    assert_eq!((&c["record"], &c["settings"]["memoryMib"]), (&json!(null), &json!(100)), "{c}");
    assert_eq!(server.exec("a", &["cat", "/workspace/f"]).await["stdout"], "kept\n");
    assert_eq!(stops(&server, "a").await.len(), 1);
    for id in ["a", "b", "c"] {
        server.delete(&format!("/v1/sandboxes/{id}")).await.expect(204);
    }
    leaves_nothing(&server).await;
}
