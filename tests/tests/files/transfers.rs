//! Large files: ranges, limits, uploads that break off, two at once.

use crate::rig::{connect, delete, get, names, put, workspace};
use e2e::{Server, eventually};
use serde_json::json;
use std::io::{Read, Write};

#[tokio::test(flavor = "multi_thread")]
async fn ranges_are_answered() {
    let server = Server::start().await;
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    put(&server, "one", "file", bytes.clone()).await.expect(200);
    let read = |headers: Vec<(&'static str, String)>| {
        let server = &server;
        async move {
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
            server.send("GET", "/v1/sandboxes/one/files/file", &headers, None).await.unwrap()
        }
    };
    let header = |answer: &e2e::Answer, name: &str| {
        answer.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()).unwrap_or_default()
    };
    for (range, part, told) in [
        ("bytes=0-0", &bytes[..1], "bytes 0-0/1000000"),
        ("bytes=500000-", &bytes[500_000..], "bytes 500000-999999/1000000"),
        ("bytes=-7", &bytes[999_993..], "bytes 999993-999999/1000000"),
        ("bytes=999999-2000000", &bytes[999_999..], "bytes 999999-999999/1000000"),
    ] {
        let answer = read(vec![("range", range.to_owned())]).await;
        assert_eq!((answer.status, header(&answer, "content-range").as_str()), (206, told));
        assert_eq!(header(&answer, "content-length"), part.len().to_string());
        assert!(answer.body == part, "{range}");
    }
    for range in ["bytes=9-1", "bytes=0-1,3-4", "lines=1-2"] {
        let answer = read(vec![("range", range.to_owned())]).await;
        assert_eq!((answer.status, answer.body.len()), (200, bytes.len()), "{range}");
    }
    let answer = read(vec![("range", "bytes=1000000-".to_owned())]).await;
    assert_eq!(answer.expect_error(416, "RANGE_NOT_SATISFIABLE")["context"]["size"], 1_000_000);
    assert_eq!(header(&answer, "content-range"), "bytes */1000000");
    let tag = header(&read(vec![]).await, "etag");
    let part = read(vec![("range", "bytes=0-9".to_owned()), ("if-range", tag.clone())]).await;
    assert_eq!(part.status, 206);
    put(&server, "one", "file", "short").await.expect(200);
    let whole = read(vec![("range", "bytes=0-1".to_owned()), ("if-range", tag)]).await;
    assert_eq!((whole.status, whole.text()), (200, "short".to_owned()));
    let head = server.send("HEAD", "/v1/sandboxes/one/files/file", &[], None).await.unwrap();
    assert_eq!(
        (head.status, header(&head, "content-length").as_str(), head.body.len()),
        (200, "5", 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_changes_nothing() {
    let server = Server::start().await;
    put(&server, "one", "file", "old").await.expect(200);
    for (name, head) in [
        ("file", "content-length: 1000000"),
        ("new", "content-length: 1000000"),
        ("file", "transfer-encoding: chunked"),
    ] {
        let mut stream = connect(&server);
        let head = format!(
            "PUT /v1/sandboxes/one/files/{name} HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        if head.contains("chunked") {
            stream.write_all(b"80000\r\n").unwrap();
        }
        stream.write_all(&vec![b'x'; 500_000]).unwrap();
        drop(stream);
    }
    // Busy until the server knows that nobody sends any more, and not a moment longer.
    eventually("the old contents", crate::rig::SOON, || async {
        let left = std::fs::read_dir(workspace(&server, "one")).unwrap().count();
        (get(&server, "one", "file").await.text() == "old" && left == 1).then_some(())
    })
    .await;
    assert_eq!(names(&server, "one").await, ["file"]);
    server.delete("/v1/sandboxes/one").await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_uploads_one_wins_whole() {
    let server = Server::start().await;
    for _ in 0..5 {
        let (a, b) = tokio::join!(
            put(&server, "one", "file", vec![b'a'; 10 << 20]),
            put(&server, "one", "file", vec![b'b'; 10 << 20]),
        );
        a.expect(200);
        b.expect(200);
        let bytes = get(&server, "one", "file").await.body;
        assert_eq!(bytes.len(), 10 << 20);
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a mixture");
    }
    assert_eq!(names(&server, "one").await, ["file"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_told_before_and_while_bytes_come() {
    let server = Server::start().await;
    let limit: usize = 64 << 20;
    put(&server, "one", "largest", vec![0; limit]).await.expect(200);
    let error = put(&server, "one", "larger", vec![0; limit + 1]).await;
    let error = error.expect_error(413, "FILE_TOO_LARGE");
    assert_eq!(error["context"]["maxSize"], limit as u64);
    assert_eq!(error["context"]["actualSize"], limit as u64 + 1);
    // Without a length nobody can know before. The answer comes all the same.
    let mut stream = connect(&server);
    let head = "PUT /v1/sandboxes/one/files/larger HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut sending = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for _ in 0..70 {
            let sent = sending
                .write_all(b"100000\r\n")
                .and_then(|()| sending.write_all(&vec![0; 1 << 20]));
            if sent.and_then(|()| sending.write_all(b"\r\n")).is_err() {
                return;
            }
        }
        let _ = sending.write_all(b"0\r\n\r\n");
    });
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("FILE_TOO_LARGE"), "{answer}");
    sender.join().unwrap();
    assert_eq!(names(&server, "one").await, ["largest"]);
    let coded = [("content-encoding", "gzip")];
    let coded =
        server.send("PUT", "/v1/sandboxes/one/files/x", &coded, Some(vec![1])).await.unwrap();
    coded.expect_error(415, "UNSUPPORTED_MEDIA_TYPE");
}

/// What commands write counts; they themselves are held by the limit of the disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_workspace_takes_no_more_until_there_is_room() {
    let server = Server::start().await;
    put(&server, "one", "file", "kept").await.expect(200);
    let fill =
        ["sh", "-c", "truncate -s 1073741820 theirs && mkdir d && cd d && seq 1 100 | xargs touch"];
    assert_eq!(server.exec("one", &fill).await["exitCode"], 0);
    // Another name each time: what replaces as much as it brings always fits.
    let tries = std::sync::atomic::AtomicU32::new(0);
    let full = eventually("the count", crate::rig::SOON, || async {
        let n = tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let answer = put(&server, "one", &format!("more-{n}"), "12345").await;
        (answer.status != 200).then_some(answer)
    })
    .await;
    let error = full.expect_error(500, "NO_SPACE");
    assert_eq!(
        (&error["context"]["of"], &error["context"]["errno"]),
        (&json!("bytes"), &json!("ENOSPC"))
    );
    let copy = json!({"op": "copy", "path": "d/1", "newPath": "e"});
    crate::rig::op(&server, "one", copy).await.expect(200);
    put(&server, "one", "file", "grows a little").await.expect_error(500, "NO_SPACE");
    assert_eq!(get(&server, "one", "file").await.text(), "kept");
    // Nothing is refused on an old count.
    assert_eq!(server.exec("one", &["rm", "theirs"]).await["exitCode"], 0);
    put(&server, "one", "file", "grows a little").await.expect(200);
    delete(&server, "one", "d?recursive").await.expect(200);
}
