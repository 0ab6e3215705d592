//! `--on-stop`: a command on the host for each stop.

use crate::rig::{SOON, make, nap, start, stop, stops, until_stops};
use e2e::{Builder, eventually, processes};
use serde_json::{Value, json};
use std::path::Path;

/// What the command was told so far, one JSON object a line.
fn told(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|l| serde_json::from_str(l).expect("a whole line")).collect()
}

#[tokio::test]
async fn every_stop_reaches_the_command_with_its_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("told");
    let mut server = Builder::default()
        .args(&["--on-stop", &format!("cat >> {}", file.display())])
        .args(&["--check-interval", "300ms", "--inactivity-timeout", "60s"])
        .start()
        .await;
    make(&server, "seven", json!({"entrypoint": ["sh", "-c", "sleep 0.1; exit 7"]})).await;
    make(&server, "idle", json!({"idleLimitMs": 300})).await;
    start(&server, "seven").await;
    start(&server, "idle").await;
    start(&server, "own").await;
    server.post("/v1/sandboxes/own/stop", json!({"reason": "lunch"})).await.expect(204);
    start(&server, "gone").await;
    server.delete("/v1/sandboxes/gone").await.expect(204);
    until_stops(&server, "idle", 1).await;
    until_stops(&server, "seven", 1).await;
    for round in 0..6 {
        start(&server, "again").await;
        let body = json!({"reason": format!("round {round}")});
        server.post("/v1/sandboxes/again/stop", body).await.expect(204);
        // At once: the stop is acknowledged, its delivery hardly begun.
        server.kill();
        server.restart().await;
    }
    let mut expected = vec![
        ("seven".to_owned(), json!("exited"), json!(7)),
        ("idle".to_owned(), json!("idle"), Value::Null),
        ("own".to_owned(), json!("lunch"), Value::Null),
        ("gone".to_owned(), json!("stopped"), Value::Null),
    ];
    for round in 0..6 {
        expected.push(("again".to_owned(), json!(format!("round {round}")), Value::Null));
    }
    eventually("each stop is told", SOON, || async {
        let told = told(&file);
        let all = expected.iter().all(|(id, reason, code)| {
            let ours = |l: &&Value| l["sandbox"] == **id && l["reason"] == *reason;
            told.iter().find(ours).is_some_and(|l| l["exitCode"] == *code)
        });
        all.then_some(())
    })
    .await;
    // Nothing was told that did not happen.
    for line in told(&file) {
        assert_eq!(line["event"], "sandbox.stopped");
        assert_eq!(line["owner"], "local");
        let id = line["sandbox"].as_str().expect("a name");
        let stops = stops(&server, id).await;
        let stop = stops.iter().find(|s| s["generation"] == line["generation"]);
        let stop = stop.unwrap_or_else(|| panic!("no such stop: {line}"));
        for key in ["reason", "cause", "exitCode", "startedAt", "stoppedAt"] {
            assert_eq!(stop[key], line[key], "{key}: {line}");
        }
    }
}

#[tokio::test]
async fn a_hanging_command_delays_nothing() {
    let nap = nap();
    let mut server = Builder::default().args(&["--on-stop", &format!("sleep {nap}")]).start().await;
    for _ in 0..25 {
        assert_eq!(server.exec("a", &["echo", "x"]).await["stdout"], "x\n");
        stop(&server, "a").await;
    }
    assert_eq!(stops(&server, "a").await.len(), 25);
    let hanging = eventually("the command hangs", SOON, || async {
        let hanging = processes(&nap);
        (!hanging.is_empty()).then_some(hanging)
    })
    .await;
    assert!(hanging.len() < 30, "{}", hanging.len());
    server.terminate();
    for found in processes(&nap) {
        let pid = rustix::process::Pid::from_raw(found.pid).expect("a pid");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

#[tokio::test]
async fn a_failing_command_is_called_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, flag) = (directory.path().join("told"), directory.path().join("flag"));
    let command = format!(
        "test -e {f} || {{ touch {f}; exit 1; }}; cat >> {t}",
        f = flag.display(),
        t = file.display()
    );
    let server = Builder::default().args(&["--on-stop", &command]).start().await;
    start(&server, "a").await;
    stop(&server, "a").await;
    eventually("it is told in the end", SOON, || async { (told(&file).len() == 1).then_some(()) })
        .await;
    assert!(flag.exists());
}
