//! What only shows on a real socket: clients that vanish, dawdle, push or babble.

mod common;

use common::wire::{PATIENCE, Server, all, eventually, post, until};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};

/// A command that lives as long as nobody ends it. It tells its pid in `file`.
fn sleeper(file: &std::path::Path) -> String {
    let script = format!("echo ready; echo $$ > {}; exec sleep 1000", file.display());
    serde_json::json!({"argv": ["sh", "-c", script]}).to_string()
}

/// The pid that the command told, once it did.
async fn pid(file: &std::path::Path) -> String {
    let mut text = String::new();
    eventually("the command runs", || {
        text = std::fs::read_to_string(file).unwrap_or_default();
        text.ends_with('\n')
    })
    .await;
    text.trim().to_owned()
}

fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_its_command() {
    let server = Server::new(|_| {}).await;
    let next = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (i, (accept, more, half)) in [
        ("", "", false),
        ("", "", true),
        ("", next, false),
        ("", next, true),
        ("Accept: application/x-ndjson\r\n", "", false),
        ("Accept: application/x-ndjson\r\n", "", true),
        ("Accept: application/x-ndjson\r\n", next, false),
        ("Accept: application/x-ndjson\r\n", next, true),
    ]
    .into_iter()
    .enumerate()
    {
        let file = server.bench.path(&format!("pid{i}"));
        let mut client = server.connect().await;
        let request = post(&format!("/sandboxes/s{i}"), accept, &sleeper(&file)) + more;
        client.write_all(request.as_bytes()).await.unwrap();
        let pid = pid(&file).await;
        if !accept.is_empty() {
            let head = until(&mut client, "ready").await;
            assert!(head.contains("transfer-encoding: chunked"), "{head}");
        }
        assert!(lives(&pid), "{i}");
        if half {
            client.shutdown().await.unwrap();
        } else {
            drop(client);
        }
        eventually(&format!("command {i} is killed"), || !lives(&pid)).await;
    }
    assert!(
        server
            .exchange("GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n".as_bytes())
            .await
            .contains("200")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_exit_is_cut_and_not_ended() {
    let mut server = Server::new(|l| l.shutdown_grace = Duration::from_millis(200)).await;
    let file = server.bench.path("pid");
    let mut client = server.connect().await;
    let request = post("/sandboxes/one", "Accept: application/x-ndjson\r\n", &sleeper(&file));
    client.write_all(request.as_bytes()).await.unwrap();
    let pid = pid(&file).await;
    let head = until(&mut client, "ready").await;
    // Shutting down waits a while, then cuts.
    server.shutdown.take().unwrap().send(()).unwrap();
    let rest = all(&mut client).await;
    assert!(!(head + &rest).contains("\r\n0\r\n"), "the stream claims to be whole");
    tokio::time::timeout(PATIENCE, &mut server.task).await.unwrap().unwrap().unwrap();
    eventually("the command is killed", || !lives(&pid)).await;
    assert!(tokio::net::TcpStream::connect(server.address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn shutting_down_lets_requests_end() {
    let long = Duration::from_secs(3600);
    let mut server = Server::new(|l| (l.shutdown_grace, l.head_timeout) = (long, long)).await;
    let mut idle = server.connect().await;
    let mut busy = server.connect().await;
    let gate = server.bench.path("gate");
    let ready = server.bench.path("ready");
    let script = format!(
        "touch {}; while ! test -e {}; do sleep 0.05; done; echo done",
        ready.display(),
        gate.display()
    );
    let body = serde_json::json!({"argv": ["sh", "-c", script]}).to_string();
    busy.write_all(post("/sandboxes/one", "", &body).as_bytes()).await.unwrap();
    eventually("the command runs", || ready.exists()).await;
    server.shutdown.take().unwrap().send(()).unwrap();
    assert_eq!(all(&mut idle).await, "");
    std::fs::write(&gate, "").unwrap();
    let answer = all(&mut busy).await;
    assert!(answer.contains("done\\n"), "{answer}");
    tokio::time::timeout(PATIENCE, &mut server.task).await.unwrap().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_heads_and_slow_bodies_end() {
    let server = Server::new(|l| {
        l.head_timeout = Duration::from_millis(300);
        l.body_timeout = Duration::from_millis(300);
    })
    .await;
    let mut clients = Vec::new();
    for _ in 0..200 {
        let mut client = server.connect().await;
        client.write_all(b"GET /healthz HTTP/1.1\r\nHost: lo").await.unwrap();
        clients.push(client);
    }
    let health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(server.exchange(health).await.starts_with("HTTP/1.1 200"));
    for client in &mut clients {
        let rest = all(client).await;
        assert!(!rest.contains("200 OK"), "{rest}");
    }
    for length in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let start =
            format!("PUT /v1/sandboxes/one HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n");
        let answer = server.exchange(start.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("in time"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pushing_client_gets_to_its_answer() {
    let server = Server::new(|_| {}).await;
    let body = "x".repeat(4 << 20);
    for (path, status) in [
        ("/v1/sandboxes/one/stop", "413"),
        ("/v1/nowhere", "404"),
        ("/v1/sandboxes/%2e/exec", "400"),
    ] {
        let mut client = server.connect().await;
        client.write_all(post(path, "", &body).as_bytes()).await.unwrap();
        let answer = until(&mut client, "\r\n\r\n").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        // One that asks first is told before it sends.
        let mut client = server.connect().await;
        let asking = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Expect: 100-continue\r\nContent-Length: 4194304\r\n\r\n"
        );
        client.write_all(asking.as_bytes()).await.unwrap();
        let answer = until(&mut client, "\r\n\r\n").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    let mut client = server.connect().await;
    let asking = "PUT /v1/sandboxes/one HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                  Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    client.write_all(asking.as_bytes()).await.unwrap();
    until(&mut client, "HTTP/1.1 100 Continue\r\n\r\n").await;
    client.write_all(b"{}").await.unwrap();
    assert!(all(&mut client).await.starts_with("HTTP/1.1 201"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_http_is_refused_in_the_one_shape() {
    let server = Server::new(|_| {}).await;
    let huge =
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: {}\r\n\r\n", "a".repeat(200_000));
    let many = "B: b\r\n".repeat(200);
    let many = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{many}\r\n");
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(65_600));
    let smuggled = "POST /sandboxes/one HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\
                    Content-Length: 5\r\n\r\nabcde";
    for (request, status) in [
        ("BLA\r\n\r\n", "400"),
        ("GET /a b HTTP/1.1\r\n\r\n", "400"),
        ("GET /\u{1} HTTP/1.1\r\n\r\n", "400"),
        (smuggled, "400"),
        (&huge, "413"),
        (&many, "413"),
        (&long, "413"),
    ] {
        let answer = server.exchange(request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        for header in
            ["x-request-id: ", "content-type: application/json", "cache-control: no-store"]
        {
            assert!(head.contains(header), "{head}");
        }
        assert!(head.contains(&format!("content-length: {}", body.len())), "{answer}");
        let body: types::ErrorBody = serde_json::from_str(body).unwrap();
        assert_eq!(body.http_status.to_string(), status);
    }
    // Both framings at once, and a request within a body, are one request or none.
    let within = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let both = format!(
        "PUT /v1/sandboxes/one HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{within}",
        within.len() + 5
    );
    let answer = server.exchange(both.as_bytes()).await;
    assert!(!answer.contains("\"status\":\"ok\""), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_places_wait() {
    let server = Server::new(|l| l.connections = 2).await;
    let held = [server.connect().await, server.connect().await];
    let health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut third = server.connect().await;
    third.write_all(health).await.unwrap();
    drop(held);
    assert!(all(&mut third).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_administrators_socket_asks_for_no_host() {
    let bench = common::Bench::new().await;
    let path = bench.path("admin.sock");
    let listener = api::Listener::Unix(UnixListener::bind(&path).unwrap());
    let server = tokio::spawn(api::serve(listener, bench.app.clone(), std::future::pending()));
    let mut client = UnixStream::connect(&path).await.unwrap();
    client.write_all(b"GET /healthz HTTP/1.0\r\nHost: anything\r\n\r\n").await.unwrap();
    let mut text = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut client, &mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
    server.abort();
}

#[tokio::test]
async fn open_mode_is_for_loopback_alone() {
    let bench = common::Bench::new().await;
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let listener = api::Listener::Tcp(listener);
    let served = api::serve(listener, bench.app.clone(), std::future::pending()).await;
    assert!(matches!(served, Err(api::ServeError::NotLoopback(_))));
}
