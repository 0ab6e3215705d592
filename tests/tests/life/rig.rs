//! What the tests of lives share.

use e2e::{Answer, Server, eventually, processes};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The limit of waits for what comes by itself.
pub const SOON: Duration = Duration::from_secs(60);

/// A number of seconds that nobody else sleeps: tells the processes of one test from all others.
pub fn nap() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("2{:07}{count:03}", std::process::id())
}

/// The record as the documents tell it; null where there is none.
pub async fn record(server: &Server, id: &str) -> Value {
    server.get(&format!("/sandboxes/{id}")).await.expect(200)
}

/// The stops, newest first.
pub async fn stops(server: &Server, id: &str) -> Vec<Value> {
    let all = server.get(&format!("/v1/sandboxes/{id}/stops")).await.expect(200);
    all.as_array().expect("a list").clone()
}

/// Makes a sandbox; it must be new.
pub async fn make(server: &Server, id: &str, settings: Value) -> Value {
    server.put(&format!("/v1/sandboxes/{id}"), settings).await.expect(201)
}

/// The info.
pub async fn info(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/sandboxes/{id}")).await.expect(200)
}

/// Stops it.
pub async fn stop(server: &Server, id: &str) {
    server.post(&format!("/v1/sandboxes/{id}/stop"), Value::Null).await.expect(204);
}

/// Starts it.
pub async fn start(server: &Server, id: &str) -> Value {
    server.post(&format!("/v1/sandboxes/{id}/start"), Value::Null).await.expect(200)
}

/// Runs a command; whatever the answer.
pub async fn run(server: &Server, id: &str, argv: &[&str]) -> Answer {
    server.post(&format!("/v1/sandboxes/{id}/exec"), json!({ "argv": argv })).await
}

/// Runs a shell script in it; its result.
pub async fn sh(server: &Server, id: &str, script: &str) -> Value {
    server.exec(id, &["sh", "-c", script]).await
}

/// Waits until its history has this many stops; the newest.
pub async fn until_stops(server: &Server, id: &str, count: usize) -> Value {
    eventually(&format!("{count} stops of {id}"), SOON, || async {
        let stops = stops(server, id).await;
        assert!(stops.len() <= count, "more stops than starts: {stops:?}");
        (stops.len() == count).then(|| stops[0].clone())
    })
    .await
}

/// Waits until no process of the machine has the text among its arguments.
pub async fn until_gone(text: &str) {
    eventually(&format!("no process with {text}"), SOON, || async {
        processes(text).is_empty().then_some(())
    })
    .await;
}

/// A number of ms.
pub fn ms(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The keys of an object, sorted.
pub fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> =
        value.as_object().expect("an object").keys().map(|k| k.as_str()).collect();
    keys.sort_unstable();
    keys
}

/// Its generations are 1, 2, 3 …: no start without its one stop.
pub fn assert_every_start_stopped_once(stops: &[Value]) {
    let generations: Vec<_> = stops.iter().rev().map(|s| s["generation"].as_u64()).collect();
    let expected: Vec<_> = (1..=stops.len() as u64).map(Some).collect();
    assert_eq!(generations, expected, "{stops:?}");
}

/// Begins a command whose arguments contain `mark`, and lets the server stand still once it runs,
/// so that it does not hear the caller go away.
pub async fn begin_and_freeze(server: &Server, id: &str, script: &str, mark: &str) {
    let argv = ["sh", "-c", script];
    let command = run(server, id, &argv);
    tokio::pin!(command);
    let started =
        eventually("it runs", SOON, || async { (!processes(mark).is_empty()).then_some(()) });
    tokio::select! {
        answer = &mut command => panic!("it ended too soon: {}", answer.text()),
        () = started => {}
    }
    server.signal(rustix::process::Signal::STOP);
}
