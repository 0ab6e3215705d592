//! What the tests of operating share.

use e2e::{Answer, Builder, Server, binary};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The limit of waits for what comes by itself.
pub const SOON: Duration = Duration::from_secs(60);

/// A server with this configuration file, and the directory of the file.
pub async fn configured(toml: &str) -> (Server, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = with_file(directory.path(), toml).start().await;
    (server, directory)
}

/// How to start one with a file in this directory.
pub fn with_file(directory: &Path, toml: &str) -> Builder {
    let file = directory.join("sandkeep.toml");
    std::fs::write(&file, toml).expect("it can be written");
    Builder::default().args(&["--config", file.to_str().expect("text")])
}

/// A request for an owner.
pub async fn as_owner(
    server: &Server,
    owner: &str,
    method: &str,
    path: &str,
    body: Value,
) -> Answer {
    let body = (!body.is_null()).then(|| body.to_string().into_bytes());
    let mut headers = vec![("sandkeep-owner", owner)];
    if body.is_some() {
        headers.push(("content-type", "application/json"));
    }
    server.send(method, path, &headers, body).await.expect("the server answers")
}

/// Runs a command in a sandbox of `local`; whatever the answer. `query`: `?…` or nothing.
pub async fn run(server: &Server, id: &str, argv: &[&str], query: &str) -> Answer {
    server.post(&format!("/v1/sandboxes/{id}/exec{query}"), json!({ "argv": argv })).await
}

/// Counts and limits of an owner.
pub async fn quotas(server: &Server, owner: &str) -> Value {
    as_owner(server, owner, "GET", "/v1/quotas", Value::Null).await.expect(200)
}

/// Stops it.
pub async fn stop(server: &Server, id: &str) {
    server.post(&format!("/v1/sandboxes/{id}/stop"), Value::Null).await.expect(204);
}

/// The record as the documents tell it; null where there is none.
pub async fn record(server: &Server, id: &str) -> Value {
    server.get(&format!("/sandboxes/{id}")).await.expect(200)
}

/// How many answers have this status; no other than these two are there.
#[track_caller]
pub fn count(answers: &[Answer], status: u16, or: u16) -> usize {
    for answer in answers {
        assert!([status, or].contains(&answer.status), "{}: {}", answer.status, answer.text());
    }
    answers.iter().filter(|answer| answer.status == status).count()
}

/// Runs the program on a data directory; its end.
pub fn sandkeep(arguments: &[&str], data: &Path) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).arg("--data").arg(data).stdin(Stdio::null());
    command.output().expect("the program starts")
}
