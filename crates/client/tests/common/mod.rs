//! Raw answers.
#![allow(dead_code, reason = "each test file uses a part")]

use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Answers one request with `parts`, a pause after each, and closes. Returns the URL.
pub async fn answers(parts: Vec<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        request(&mut socket).await;
        for part in parts {
            socket.write_all(&part).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    url
}

/// Reads a request with its body; its text.
pub async fn request(socket: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let n = socket.read(&mut piece).await.unwrap();
        text.extend_from_slice(&piece[..n]);
        let whole = String::from_utf8_lossy(&text).to_ascii_lowercase();
        let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
        let length = head.split("content-length: ").nth(1).and_then(|t| t.lines().next());
        if n == 0 || body.len() >= length.map_or(0, |t| t.parse().unwrap()) {
            return String::from_utf8(text).unwrap();
        }
    }
}

/// The head of a stream of events.
pub fn head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        .to_vec()
}

/// A piece of a body.
pub fn chunk(text: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}
