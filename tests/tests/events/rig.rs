//! What the tests of events share.

use e2e::{Server, eventually};
use serde_json::{Value, json};
use std::time::Duration;

/// The limit of waits for what comes by itself.
pub const SOON: Duration = Duration::from_secs(60);

/// All events of owner `local`, or of a sandbox of that owner.
pub async fn events(server: &Server, sandbox: Option<&str>) -> Vec<Value> {
    let of = sandbox.map(|id| format!("&sandbox={id}")).unwrap_or_default();
    let page = server.get(&format!("/v1/events?limit=1000{of}")).await.expect(200);
    assert_eq!(page["more"], false);
    page["events"].as_array().expect("a list").clone()
}

/// Their types.
pub fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|e| e["type"].as_str().expect("a type")).collect()
}

/// Waits for the first event of this type of a sandbox.
pub async fn until(server: &Server, sandbox: &str, kind: &str) -> Value {
    eventually(&format!("{kind} of {sandbox}"), SOON, || async {
        let all = events(server, Some(sandbox)).await;
        all.into_iter().find(|event| event["type"] == kind)
    })
    .await
}

/// Makes a sandbox; it must be new.
pub async fn make(server: &Server, id: &str, settings: Value) {
    server.put(&format!("/v1/sandboxes/{id}"), settings).await.expect(201);
}

/// Starts it.
pub async fn start(server: &Server, id: &str) {
    server.post(&format!("/v1/sandboxes/{id}/start"), Value::Null).await.expect(200);
}

/// Stops it for a reason.
pub async fn stop(server: &Server, id: &str, reason: &str) {
    let body = json!({ "reason": reason });
    server.post(&format!("/v1/sandboxes/{id}/stop"), body).await.expect(204);
}
