//! Starts that fail.

use crate::rig::{make, record, sh, stop, stops};
use e2e::{Server, binary};
use serde_json::{Value, json};

#[tokio::test]
async fn a_failed_first_start_stays_listed() {
    let server = Server::start().await;
    make(&server, "bad", json!({"entrypoint": ["/no/such/program"]})).await;
    for attempt in 1..=2 {
        let answer = crate::rig::run(&server, "bad", &["true"]).await;
        let error = answer.expect_error(503, "INSTANCE_START_FAILED");
        assert_eq!(error["retryable"], true, "{error}");
        let list = server.get("/users/local/sandboxes").await.expect(200);
        assert_eq!(list, json!([{"session": "bad", "running": false}]));
        let record = record(&server, "bad").await;
        assert_eq!(record["state"], "stopped");
        assert_eq!(record["cause"], "failed");
        assert_eq!(record["exitCode"], Value::Null);
        assert_eq!(record["starts"], attempt);
        let reason = record["reason"].as_str().unwrap();
        assert!(reason.contains("/no/such/program"), "{reason}");
        assert_eq!(stops(&server, "bad").await.len(), attempt);
    }
    // The next one works as soon as the cause is mended.
    let patch = json!({"entrypoint": ["sleep", "1000000"]});
    server.json("PATCH", "/v1/sandboxes/bad", patch).await.expect(200);
    assert_eq!(server.exec("bad", &["echo", "now"]).await["stdout"], "now\n");
    assert_eq!(record(&server, "bad").await["starts"], 3);
    let lines = server.stop_lines();
    let failed = lines.iter().filter(|l| l["cause"] == "failed").count();
    assert_eq!(failed, 2, "{lines:?}");
}

#[tokio::test]
async fn all_who_wait_for_a_failed_start_are_told() {
    let server = Server::start().await;
    make(&server, "bad", json!({"entrypoint": ["/etc/passwd"]})).await;
    let calls = (0..10).map(|_| crate::rig::run(&server, "bad", &["true"]));
    for answer in futures::future::join_all(calls).await {
        answer.expect_error(503, "INSTANCE_START_FAILED");
    }
    let stops = stops(&server, "bad").await;
    assert_eq!(record(&server, "bad").await["starts"], stops.len());
    assert!(stops.iter().all(|s| s["cause"] == "failed"), "{stops:?}");
}

#[tokio::test]
async fn an_unknown_image_is_named() {
    let server = Server::start().await;
    let answer = server.put("/v1/sandboxes/x", json!({"image": "no-such-image"})).await;
    let error = answer.expect_error(422, "IMAGE_NOT_FOUND");
    assert!(error["message"].as_str().unwrap().contains("no-such-image"), "{error}");
    server.get("/v1/sandboxes/x").await.expect_error(404, "SANDBOX_NOT_FOUND");
    make(&server, "x", json!({})).await;
    let patch = json!({"image": "no-such-image"});
    let answer = server.json("PATCH", "/v1/sandboxes/x", patch).await;
    answer.expect_error(422, "IMAGE_NOT_FOUND");
    assert_eq!(server.exec("x", &["echo", "fine"]).await["stdout"], "fine\n");
}

#[tokio::test]
async fn a_failed_start_keeps_the_workspace() {
    let server = Server::start().await;
    sh(&server, "a", "echo kept > /workspace/f").await;
    stop(&server, "a").await;
    let path = "/v1/sandboxes/a";
    let patch = json!({"entrypoint": ["/no/such/program"]});
    server.json("PATCH", path, patch).await.expect(200);
    let answer = crate::rig::run(&server, "a", &["true"]).await;
    answer.expect_error(503, "INSTANCE_START_FAILED");
    server.json("PATCH", path, json!({"entrypoint": ["sleep", "1000000"]})).await.expect(200);
    assert_eq!(sh(&server, "a", "cat /workspace/f").await["stdout"], "kept\n");
}

#[tokio::test]
async fn an_image_that_was_removed_is_named_and_may_come_back() {
    let server = Server::start().await;
    let root = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(root.path().join("bin")).expect("it can be made");
    std::fs::copy("/bin/busybox", root.path().join("bin/busybox")).expect("busybox-static");
    let image = |args: &[&str]| {
        let output = std::process::Command::new(binary())
            .arg("--data")
            .arg(&server.data)
            .arg("image")
            .args(args)
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let path = root.path().to_str().expect("text").to_owned();
    image(&["import", "tiny", &path]);
    make(&server, "a", json!({"image": "tiny"})).await;
    let echo = ["/bin/busybox", "echo", "hello"];
    assert_eq!(server.exec("a", &echo).await["stdout"], "hello\n");
    stop(&server, "a").await;
    image(&["rm", "tiny"]);
    let error = crate::rig::run(&server, "a", &echo).await.expect_error(422, "IMAGE_NOT_FOUND");
    assert!(error["message"].as_str().unwrap().contains("tiny"), "{error}");
    let record = record(&server, "a").await;
    assert_eq!((&record["state"], &record["cause"]), (&json!("stopped"), &json!("failed")));
    image(&["import", "tiny", &path]);
    assert_eq!(server.exec("a", &echo).await["stdout"], "hello\n");
}
