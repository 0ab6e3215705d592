//! What the tests of lists share.

use e2e::{Server, binary};
use serde_json::{Value, json};

/// Makes a sandbox of an owner; it must be new.
pub async fn make(server: &Server, owner: &str, id: &str, settings: Value) {
    let path = format!("/v1/sandboxes/{id}?owner={owner}");
    server.put(&path, settings).await.expect(201);
}

/// Starts one.
pub async fn start(server: &Server, owner: &str, id: &str) {
    let path = format!("/v1/sandboxes/{id}/start?owner={owner}");
    server.post(&path, Value::Null).await.expect(200);
}

/// Stops one.
pub async fn stop(server: &Server, owner: &str, id: &str) {
    let path = format!("/v1/sandboxes/{id}/stop?owner={owner}");
    server.post(&path, Value::Null).await.expect(204);
}

/// Destroys one.
pub async fn destroy(server: &Server, owner: &str, id: &str) {
    server.delete(&format!("/v1/sandboxes/{id}?owner={owner}")).await.expect(204);
}

/// One whose main process is this shell script.
pub fn main(script: &str) -> Value {
    json!({"entrypoint": ["sh", "-c", script]})
}

/// Runs a verb of the program against the server: exit code, standard output, standard error.
pub fn verb(server: &Server, args: &[&str]) -> (i32, String, String) {
    let output = std::process::Command::new(binary())
        .args(args)
        .env("SANDKEEP_URL", &server.url)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// The same, which must end well; its standard output.
#[track_caller]
pub fn ok(server: &Server, args: &[&str]) -> String {
    let (code, stdout, stderr) = verb(server, args);
    assert_eq!(code, 0, "{args:?}: {stderr}");
    stdout
}
