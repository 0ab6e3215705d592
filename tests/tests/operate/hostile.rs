//! Clients that mean no good: slow ones, huge ones, broken ones (cases 211 and 212).

use e2e::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.url.trim_start_matches("http://")).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it can be set");
    stream
}

/// The first bytes of the answer, as text.
fn answer(mut stream: &TcpStream) -> String {
    let mut bytes = [0; 4096];
    let count = stream.read(&mut bytes).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[tokio::test]
async fn two_hundred_clients_that_never_finish_a_request_hold_up_nobody() {
    let server = Server::start().await;
    let mut slow: Vec<TcpStream> = (0..200)
        .map(|n| {
            let mut stream = connect(&server);
            write!(stream, "GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-{n}: ").unwrap();
            stream
        })
        .collect();
    for _ in 0..20 {
        for stream in &mut slow {
            let _ = stream.write_all(b"a");
        }
        server.get("/v1/sandboxes").await.expect(200);
    }
    assert_eq!(server.exec("a", &["echo", "hi"]).await["stdout"], "hi\n");
    // They do not stay for ever, however steadily they go on.
    e2e::eventually("they are cut off", Duration::from_secs(60), || {
        let open = slow.iter().filter(|s| {
            let mut s: &TcpStream = s;
            s.set_nonblocking(true).expect("it can be set");
            !matches!(s.read(&mut [0; 512]), Ok(0) | Err(_)) || s.write_all(b"a").is_ok()
        });
        let open = open.count();
        async move { (open == 0).then_some(()) }
    })
    .await;
}

#[tokio::test]
async fn a_huge_head_is_refused() {
    let server = Server::start().await;
    let mut stream = connect(&server);
    let _ = write!(stream, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ");
    let piece = [b'a'; 16 << 10];
    for _ in 0..64 {
        if stream.write_all(&piece).is_err() {
            break;
        }
    }
    let said = answer(&stream);
    assert!(said.contains("413") && said.contains("REQUEST_TOO_LARGE"), "{said}");
    server.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn a_hundred_mebibytes_for_a_small_route_are_refused_unread() {
    let server = Server::start().await;
    let mut stream = connect(&server);
    write!(
        stream,
        "PUT /v1/sandboxes/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{{",
        100 << 20
    )
    .unwrap();
    // The answer is there although next to nothing was sent.
    let said = answer(&stream);
    assert!(said.starts_with("HTTP/1.1 413") && said.contains("REQUEST_TOO_LARGE"), "{said}");
    // Without a length it is read to the limit and no further.
    let mut stream = connect(&server);
    write!(
        stream,
        "PUT /v1/sandboxes/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    )
    .unwrap();
    let piece = [b' '; 64 << 10];
    for _ in 0..20 {
        let sent = write!(stream, "{:x}\r\n", piece.len())
            .and_then(|()| stream.write_all(&piece))
            .and_then(|()| stream.write_all(b"\r\n"));
        if sent.is_err() {
            break;
        }
    }
    let said = answer(&stream);
    assert!(said.starts_with("HTTP/1.1 413"), "{said}");
    assert_eq!(server.get("/v1/sandboxes/a").await.status, 404);
}

#[tokio::test]
async fn a_body_that_breaks_off_does_nothing() {
    let server = Server::start().await;
    for body in ["5\r\n{\"ima", "zz\r\n", "5\r\n{\"a\"", "ffffffffffffffff1\r\n{}"] {
        let mut stream = connect(&server);
        let head = "POST /v1/sandboxes/a/exec HTTP/1.1\r\nHost: localhost\r\n\
                    Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let said = answer(&stream);
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 400"), "{body:?}: {said}");
    }
    assert_eq!(server.get("/v1/sandboxes/a").await.status, 404, "nothing was begun");
}

#[tokio::test]
async fn a_web_page_does_not_get_through() {
    let server = Server::start().await;
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        let answer = server.send("PUT", "/v1/sandboxes/a", &[(name, value)], None).await.unwrap();
        answer.expect_error(403, "FORBIDDEN");
    }
    assert_eq!(server.get("/v1/sandboxes/a").await.status, 404);
}
