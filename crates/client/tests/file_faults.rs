//! Files against a peer that does wrong what a well-behaved server never does.

mod common;

use bytes::Bytes;
use client::{Client, Error, FileRange};
use common::{answers, chunk, head, request};
use futures::stream;
use std::io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use types::{ErrorCode, WatchEvent};

fn client(url: &str) -> Client {
    Client::new(url, None, None).unwrap()
}

#[tokio::test]
async fn half_a_file_is_an_error() {
    let counted = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec();
    let chunked = [head(), chunk(b"half")].concat();
    for answer in [counted, chunked] {
        let mut download =
            client(&answers(vec![answer]).await).read_file("a", "f", None).await.unwrap();
        assert_eq!(download.next().await.unwrap().unwrap(), "half");
        let error = download.next().await.unwrap_err();
        assert!(matches!(&error, Error::Protocol(t) if t.contains("broke off")), "{error:?}");
    }
    let whole = [head(), chunk(b"whole"), b"0\r\n\r\n".to_vec()].concat();
    let download = client(&answers(vec![whole]).await).archive("a", "d").await.unwrap();
    assert_eq!(download.bytes().await.unwrap(), b"whole");
}

#[tokio::test]
async fn a_watch_that_breaks_off_is_no_end() {
    let ready = "event: ready\ndata: {\"type\":\"ready\",\"path\":\"/workspace\"}\n\n";
    let made = ": nothing\r\n\r\nid: 4\r\ndata: {\"type\":\"created\",\r\n\
                data: \"path\":\"/workspace/é\",\"directory\":false}\r\n\r\n";
    let gone = "data: {\"type\":\"gone\"}\n\ndata: junk\n\n";
    // Cut at every byte.
    let mut parts = vec![head()];
    parts.extend([ready, made, gone].concat().as_bytes().iter().map(|b| chunk(&[*b])));
    let mut watch = client(&answers(parts).await).watch("a", "").await.unwrap();
    let path = "/workspace".to_owned();
    assert_eq!(watch.next().await.unwrap(), Some(WatchEvent::Ready { path }));
    let created = watch.next().await.unwrap().unwrap();
    assert!(matches!(&created, WatchEvent::Created { path, .. } if path == "/workspace/é"));
    assert_eq!(watch.next().await.unwrap(), Some(WatchEvent::Gone));
    assert_eq!(watch.next().await.unwrap(), None);

    for (text, last) in [(ready, &b"0\r\n\r\n"[..]), (ready, b""), (&ready[..30], b"0\r\n\r\n")] {
        let parts = vec![head(), chunk(text.as_bytes()), last.to_vec()];
        let mut watch = client(&answers(parts).await).watch("a", "").await.unwrap();
        let mut told = 0;
        let error = loop {
            match watch.next().await {
                Ok(event) => told += usize::from(event.expect("an end was made up").eq(&created)),
                Err(error) => break error,
            }
        };
        assert_eq!(told, 0);
        assert!(matches!(&error, Error::Protocol(t) if t.contains("broke off")), "{error:?}");
        assert_eq!(watch.next().await.unwrap(), None);
    }
    let parts = vec![head(), chunk(b"data: {\"type\":\"brand_new\"}\n\n")];
    let mut watch = client(&answers(parts).await).watch("a", "").await.unwrap();
    assert!(matches!(watch.next().await.unwrap_err(), Error::Protocol(_)));
}

#[tokio::test]
async fn what_cannot_be_read_is_never_sent_as_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        let _ = socket.read_to_end(&mut all).await;
        all
    });
    // More than is kept back before it is sent.
    let half = (0..4).map(|_| Ok(Bytes::from(vec![b'h'; 1 << 20])));
    let pieces: Vec<io::Result<Bytes>> =
        half.chain([Err(io::Error::other("a bad block"))]).collect();
    let error = client(&url).write_file("a", "f", stream::iter(pieces), None).await.unwrap_err();
    assert!(matches!(&error, Error::Protocol(t) if t.contains("a bad block")), "{error:?}");
    let sent = String::from_utf8(served.await.unwrap()).unwrap();
    assert!(sent.contains("hhhh"));
    assert!(!sent.ends_with("0\r\n\r\n"), "it was ended as if it were whole");
}

#[tokio::test]
async fn a_server_that_refuses_an_upload_is_heard() {
    let body = r#"{"code":"FILE_TOO_LARGE","message":"too large","context":{"maxSize":1},
        "httpStatus":413,"retryable":false,"timestamp":"2026-01-01T00:00:00.000Z"}"#;
    let answer = format!("HTTP/1.1 413 No\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut some = vec![0; 1000];
        socket.read_exact(&mut some).await.unwrap();
        socket.write_all(answer.as_bytes()).await.unwrap();
        // It goes on to read, as servers do, so that the answer is not lost.
        let _ = tokio::io::copy(&mut socket, &mut tokio::io::sink()).await;
        String::from_utf8(some).unwrap()
    });
    // Far more than any buffer holds: only the answer can end this.
    let pieces = stream::repeat_with(|| Ok(Bytes::from_static(&[b'x'; 4096])));
    let error = client(&url).write_file("a", "x/ÿ y", pieces, Some(1 << 40)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::FileTooLarge), "{error:?}");
    let sent = served.await.unwrap().to_ascii_lowercase();
    assert!(sent.starts_with("put /v1/sandboxes/a/files/x/%c3%bf%20y "), "{sent}");
    assert!(sent.contains("content-length: 1099511627776"), "{sent}");
    assert!(!sent.contains("transfer-encoding"), "{sent}");
}

#[tokio::test]
async fn ranges_and_paths_are_sent_as_they_are_meant() {
    for (range, text) in [
        (FileRange::From(5), "bytes=5-"),
        (FileRange::Between(0, 9), "bytes=0-9"),
        (FileRange::Last(3), "bytes=-3"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let text = request(&mut socket).await;
            socket.write_all(b"HTTP/1.1 206 Partial\r\ncontent-length: 1\r\n\r\nx").await.unwrap();
            text
        });
        let path = b"/workspace/a/../\xff?#".as_slice();
        let download = client(&url).read_file("a", path, Some(range)).await.unwrap();
        assert_eq!(download.size(), Some(1));
        let sent = served.await.unwrap();
        assert!(sent.starts_with("GET /v1/sandboxes/a/files/%FF%3F%23 "), "{sent}");
        assert!(sent.contains(&format!("range: {text}\r\n")), "{sent}");
    }
    let client = client("http://127.0.0.1:1");
    for path in ["../x", "/etc/passwd", "a/../../x"] {
        let error = client.stat_file("a", path).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::PermissionDenied), "{path}: {error:?}");
    }
}
