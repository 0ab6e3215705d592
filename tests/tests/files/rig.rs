//! What the tests of files share.

use e2e::{Answer, Server};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// The limit of waits for what comes by itself.
pub const SOON: Duration = Duration::from_secs(60);

/// Writes a file.
pub async fn put(server: &Server, id: &str, path: &str, bytes: impl Into<Vec<u8>>) -> Answer {
    let path = format!("/v1/sandboxes/{id}/files/{path}");
    server.send("PUT", &path, &[], Some(bytes.into())).await.expect("an answer")
}

/// Reads a file, or with a query what is told of it.
pub async fn get(server: &Server, id: &str, path: &str) -> Answer {
    server.get(&format!("/v1/sandboxes/{id}/files/{path}")).await
}

/// Deletes.
pub async fn delete(server: &Server, id: &str, path: &str) -> Answer {
    server.delete(&format!("/v1/sandboxes/{id}/files/{path}")).await
}

/// One of the operations.
pub async fn op(server: &Server, id: &str, body: Value) -> Answer {
    server.post(&format!("/v1/sandboxes/{id}/files"), body).await
}

/// Makes a directory.
pub async fn mkdir(server: &Server, id: &str, path: &str) {
    op(server, id, json!({"op": "mkdir", "path": path, "recursive": true})).await.expect(200);
}

/// Paths of all that lies in the workspace.
pub async fn names(server: &Server, id: &str) -> Vec<String> {
    let list = get(server, id, "?list&recursive&includeHidden").await.expect(200);
    let files = list["files"].as_array().expect("a list").iter();
    files.map(|f| f["relativePath"].as_str().expect("text").to_owned()).collect()
}

/// The workspace on the disk.
pub fn workspace(server: &Server, id: &str) -> PathBuf {
    server.data.join("sandboxes").join(Server::object("local", id)).join("workspace")
}

/// Opens a connection to the server, for what no client sends.
pub fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.url.trim_start_matches("http://")).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("a limit");
    stream
}

/// Sends a request exactly as it is, and reads the answer to its end.
pub fn raw(server: &Server, head: &str, body: &[u8]) -> (u16, String) {
    let mut stream = connect(server);
    let head = format!("{head}\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(body).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    (status, text)
}
