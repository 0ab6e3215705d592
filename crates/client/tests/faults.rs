//! What a peer may do wrong that a well-behaved server never does: each answer is raw bytes.

mod common;

use client::{Client, Error};
use common::{answers, chunk, head, request};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, UnixListener};
use types::{ErrorCode, ExecEvent, ExecRequest};

const START: &str = "{\"type\":\"start\",\"seq\":0,\"execId\":\"e1\"}\n";
const OUT: &str = "{\"type\":\"stdout\",\"seq\":1,\"data\":\"é€😀\"}\n";
const EXIT: &str = "{\"type\":\"exit\",\"seq\":2,\"exitCode\":7,\"timedOut\":false,\
                    \"oomKilled\":false,\"durationMs\":1}\n";

async fn run(url: &str) -> Result<Vec<ExecEvent>, Error> {
    let client = Client::new(url, None, None).unwrap();
    let mut stream = client.exec_stream("a", &ExecRequest::new(["x"])).await?;
    let mut events = Vec::new();
    while let Some(event) = stream.next().await? {
        events.push(event);
    }
    assert_eq!(stream.next().await.unwrap(), None, "an ended stream stays ended");
    Ok(events)
}

#[tokio::test]
async fn events_cut_at_every_byte_are_whole() {
    let text = [START, OUT, EXIT].concat();
    let mut parts = vec![head()];
    parts.extend(text.as_bytes().iter().map(|b| chunk(&[*b])));
    parts.push(b"0\r\n\r\n".to_vec());
    let events = run(&answers(parts).await).await.unwrap();
    assert_eq!(client::event_bytes(&events[1]).unwrap().unwrap(), "é€😀".as_bytes());
    assert!(matches!(events[2], ExecEvent::Exit { exit_code: 7, .. }));
}

#[tokio::test]
async fn a_stream_without_an_end_is_unknown() {
    for last in [&b"0\r\n\r\n"[..], b"", b"5\r\n{\"ty"] {
        let text = [START, OUT].concat();
        let url = answers(vec![head(), chunk(text.as_bytes()), last.to_vec()]).await;
        let error = run(&url).await.unwrap_err();
        assert!(matches!(error, Error::Unknown(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_the_command_unknown() {
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec();
    for answer in [vec![], vec![cut]] {
        let client = Client::new(&answers(answer).await, None, None).unwrap();
        let error = client.exec("a", &ExecRequest::new(["x"])).await.unwrap_err();
        assert!(matches!(error, Error::Unknown(_)), "{error:?}");
    }
    let error = run(&answers(vec![]).await).await.unwrap_err();
    assert!(matches!(error, Error::Unknown(_)), "{error:?}");
}

#[tokio::test]
async fn a_missing_event_is_seen() {
    let url = answers(vec![head(), chunk([START, EXIT].concat().as_bytes())]).await;
    let error = run(&url).await.unwrap_err();
    assert!(
        matches!(&error, Error::Protocol(t) if t.contains("event 2 came where 1")),
        "{error:?}"
    );
}

#[tokio::test]
async fn bytes_after_the_end_are_not_read() {
    let text = format!("{START}{OUT}{EXIT}no event\n");
    let events = run(&answers(vec![head(), chunk(text.as_bytes())]).await).await.unwrap();
    assert_eq!(events.len(), 3);
}

#[tokio::test]
async fn refusals_keep_code_and_context() {
    let body = r#"{"code":"INSTANCE_STOPPED","message":"it stopped","context":{"reason":"idle"},
        "httpStatus":409,"retryable":false,"timestamp":"2026-01-01T00:00:00.000Z"}"#;
    let answer = format!("HTTP/1.1 409 Conflict\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let error = run(&answers(vec![answer.into_bytes()]).await).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::InstanceStopped));
    let Error::Api(error) = error else { panic!("{error:?}") };
    assert_eq!(error.context["reason"], "idle");
}

#[tokio::test]
async fn a_code_of_a_later_release_stays_readable() {
    let body = r#"{"code":"BRAND_NEW","message":"something new"}"#;
    let answer = format!("HTTP/1.1 418 No\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let error = run(&answers(vec![answer.into_bytes()]).await).await.unwrap_err();
    assert!(matches!(&error, Error::Protocol(t) if t.contains("something new")), "{error:?}");
}

#[tokio::test]
async fn nobody_there_is_a_connect_error() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = run(&format!("http://{free}")).await.unwrap_err();
    assert!(matches!(&error, Error::Connect { why, .. } if why.contains("refused")), "{error:?}");
}

#[tokio::test]
async fn names_are_checked_before_anything_is_sent() {
    // The URL leads nowhere: only a check that comes first can answer with the rule.
    let client = Client::new("http://127.0.0.1:1", None, None).unwrap();
    for name in ["..", "a/b", "", "-a", "admin", &"a".repeat(64)] {
        let error = client.info(name).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::ValidationFailed), "{name:?}: {error:?}");
    }
}

#[test]
fn urls_are_checked_at_once() {
    for url in ["", "127.0.0.1:7700", "ftp://a", "http://", "https://"] {
        assert!(matches!(Client::new(url, None, None), Err(Error::Protocol(_))), "{url:?}");
    }
}

#[tokio::test]
async fn a_socket_behind_a_long_path_is_reached() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("d".repeat(100)).join("e".repeat(100));
    std::fs::create_dir_all(&deep).unwrap();
    let fd = std::fs::File::open(&deep).unwrap();
    let short = format!("/proc/self/fd/{}/s", std::os::fd::AsRawFd::as_raw_fd(&fd));
    let listener = UnixListener::bind(short).unwrap();
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let text = request(&mut socket).await;
        socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        text
    });
    let owner = "ada".parse().unwrap();
    Client::unix(&deep.join("s"), None, Some(owner)).unwrap().touch("a").await.unwrap();
    let text = served.await.unwrap();
    assert!(text.starts_with("POST /v1/sandboxes/a/touch "), "{text}");
    assert!(text.contains("sandkeep-owner: ada"), "{text}");
}

#[test]
fn stdin_keeps_every_byte() {
    let all: Vec<u8> = (0..=255).collect();
    let types::Stdin::Bytes { base64 } = client::stdin_of(all.clone()) else { panic!("not text") };
    let result: types::ExecEvent = serde_json::from_value(serde_json::json!({
        "type": "stdout", "seq": 0, "data": base64, "encoding": "base64"
    }))
    .unwrap();
    assert_eq!(client::event_bytes(&result).unwrap().unwrap(), all);
    assert_eq!(client::stdin_of(b"text".to_vec()), types::Stdin::Text("text".to_owned()));
}
