//! The main process's output, and the history of stops.

use crate::rig::{
    SOON, assert_every_start_stopped_once, make, ms, start, stop, stops, until_stops,
};
use e2e::{Server, eventually};
use serde_json::json;

#[tokio::test]
async fn output_is_kept_after_the_stop() {
    let mut server = Server::start().await;
    let script = "echo to stdout; echo to stderr >&2; exit 3";
    make(&server, "a", json!({"entrypoint": ["sh", "-c", script]})).await;
    start(&server, "a").await;
    until_stops(&server, "a", 1).await;
    let logs = || async { server.get("/v1/sandboxes/a/logs").await.text() };
    assert_eq!(logs().await, "to stdout\nto stderr\n");
    server.kill();
    server.restart().await;
    let logs = server.get("/v1/sandboxes/a/logs").await;
    assert_eq!(logs.text(), "to stdout\nto stderr\n");
    server.delete("/v1/sandboxes/a").await.expect(204);
    server.get("/v1/sandboxes/a/logs").await.expect_error(404, "SANDBOX_NOT_FOUND");
    server.put("/v1/sandboxes/a", json!({})).await.expect(201);
    assert_eq!(server.get("/v1/sandboxes/a/logs").await.text(), "", "the old one's output");
}

#[tokio::test]
async fn output_is_the_last_mebibyte() {
    let server = Server::start().await;
    // Lines of 16 bytes, 5 MiB of them: each says where it stands.
    let script = "i=0; seq -f '%015.0f' 0 327679; echo end; exec sleep 1000000";
    make(&server, "a", json!({"entrypoint": ["sh", "-c", script]})).await;
    start(&server, "a").await;
    let logs = eventually("all is written", SOON, || async {
        let logs = server.get("/v1/sandboxes/a/logs").await;
        assert!(logs.body.len() <= 1 << 20, "{} bytes", logs.body.len());
        logs.body.ends_with(b"\nend\n").then_some(logs.body)
    })
    .await;
    assert_eq!(logs.len(), 1 << 20);
    let text = String::from_utf8(logs).expect("text");
    let numbers: Vec<u64> = text.lines().skip(1).filter_map(|l| l.parse::<u64>().ok()).collect();
    assert!(numbers.len() > 65_000, "{}", numbers.len());
    assert!(numbers.windows(2).all(|w| w[1] == w[0] + 1), "lines are missing or twice there");
    assert_eq!(numbers.last(), Some(&327_679));
    stop(&server, "a").await;
    let after = server.get("/v1/sandboxes/a/logs").await;
    assert_eq!(after.text(), text);
}

#[tokio::test]
async fn stops_are_told_newest_first_also_after_the_destroy() {
    let server = Server::start().await;
    for reason in ["one", "two", "three"] {
        start(&server, "a").await;
        server.post("/v1/sandboxes/a/stop", json!({"reason": reason})).await.expect(204);
    }
    start(&server, "a").await;
    let before = stops(&server, "a").await;
    let reasons: Vec<_> = before.iter().map(|s| s["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["three", "two", "one"]);
    server.delete("/v1/sandboxes/a").await.expect(204);
    let after = stops(&server, "a").await;
    assert_eq!(after.len(), 4);
    assert_eq!(after[0]["cause"], "destroyed");
    assert_eq!(after[1..], before[..]);
    assert_every_start_stopped_once(&after);
    for pair in after.windows(2) {
        assert!(ms(&pair[0]["startedAt"]) >= ms(&pair[1]["stoppedAt"]), "{pair:?}");
    }
}
