//! Code contexts against a peer that does wrong what a well-behaved server never does.

mod common;

use client::{Client, CodeStream, Error, Place};
use common::{answers, chunk, head, request};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use types::{CodeEvent, CodeRequest, ErrorCode};

const OUT: &str = "{\"type\":\"stdout\",\"seq\":0,\"text\":\"é€😀\",\"at\":1}\n";
const BYTES: &str =
    "{\"type\":\"stderr\",\"seq\":1,\"text\":\"/wA=\",\"at\":2,\"encoding\":\"base64\"}\n";
const RESULT: &str = "{\"type\":\"result\",\"seq\":2,\"result\":{\"text\":\"None\",\"json\":null,\
                      \"image/png\":\"aGk=\"}}\n";
const GUEST: &str = "{\"type\":\"error\",\"seq\":3,\"error\":{\"name\":\"KeyError\",\
                     \"message\":\"1\",\"traceback\":[\"a\",\"b\"],\"lineNumber\":3}}\n";
const END: &str = "{\"type\":\"end\",\"seq\":4,\"result\":{\"code\":\"x\",\"language\":\"python\",\
                   \"engine\":\"E\",\"durationMs\":1,\"logs\":{\"stdout\":[],\"stderr\":[],\
                   \"entries\":[],\"truncated\":false},\"results\":[],\"usage\":{\"cpuMs\":1,\
                   \"memoryBytes\":2,\"outputBytes\":3},\"rolledBack\":false}}\n";

fn code() -> CodeRequest {
    CodeRequest { code: "x".to_owned(), ..CodeRequest::default() }
}

async fn begin(url: &str) -> Result<CodeStream, Error> {
    let client = Client::new(url, None, None).unwrap();
    client.execute_stream(Place::Sandbox("a"), &code()).await
}

async fn run(url: &str) -> (Vec<CodeEvent>, Result<(), Error>) {
    let mut events = Vec::new();
    let mut stream = match begin(url).await {
        Ok(stream) => stream,
        Err(error) => return (events, Err(error)),
    };
    let end = loop {
        match stream.next().await {
            Ok(Some(event)) => events.push(event),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    assert_eq!(stream.next().await.unwrap(), None, "an ended stream stays ended");
    (events, end)
}

fn unknown(end: Result<(), Error>) -> bool {
    matches!(end, Err(Error::UnknownCode(_)))
}

#[tokio::test]
async fn events_cut_at_every_byte_are_whole() {
    let text = [OUT, BYTES, RESULT, GUEST, END].concat();
    let mut parts = vec![head()];
    parts.extend(text.as_bytes().iter().map(|b| chunk(&[*b])));
    parts.push(b"0\r\n\r\n".to_vec());
    let (events, end) = run(&answers(parts).await).await;
    end.unwrap();
    assert_eq!(events.len(), 5);
    let bytes = |i: usize| client::code_event_bytes(&events[i]).unwrap();
    assert_eq!(bytes(0).unwrap(), "é€😀".as_bytes());
    assert_eq!(bytes(1).unwrap(), [255, 0]);
    assert_eq!(bytes(2), None);
    let CodeEvent::Result { result, .. } = &events[2] else { panic!("{:?}", events[2]) };
    assert_eq!(result.json, Some(serde_json::Value::Null), "null is a value");
    assert_eq!(result.mime["image/png"], "aGk=");
    assert!(matches!(&events[3], CodeEvent::Error { error: Some(e), .. } if e.name == "KeyError"));
}

#[tokio::test]
async fn a_stream_without_an_end_is_never_an_end() {
    // Also not after the guest's own error: whether the memory was saved is not known then.
    for told in [String::new(), OUT.to_owned(), [OUT, BYTES, RESULT, GUEST].concat()] {
        for last in [&b"0\r\n\r\n"[..], b"", b"5\r\n{\"ty"] {
            let mut parts = vec![head()];
            if !told.is_empty() {
                parts.push(chunk(told.as_bytes()));
            }
            parts.push(last.to_vec());
            let (events, end) = run(&answers(parts).await).await;
            assert_eq!(events.len(), told.lines().count());
            assert!(unknown(end), "{last:?}");
        }
    }
}

#[tokio::test]
async fn a_line_that_is_cut_is_no_event() {
    // Whole JSON without its line end may be the head of a longer number or of nothing at all.
    let whole = [OUT, BYTES, RESULT, GUEST, END].concat();
    for cut in [1, 2, 20, END.len() - 1] {
        let text = &whole.as_bytes()[..whole.len() - cut];
        let parts = vec![head(), chunk(text), b"0\r\n\r\n".to_vec()];
        let (events, end) = run(&answers(parts).await).await;
        assert_eq!(events.len(), 4);
        assert!(unknown(end), "{cut} bytes are missing");
    }
}

#[tokio::test]
async fn a_missing_or_foreign_event_is_seen() {
    let gap = [OUT, RESULT].concat();
    for (text, why) in [(gap.as_str(), "event 2 came where 1"), ("{\"seq\":0}\n", "no event")] {
        let (_, end) = run(&answers(vec![head(), chunk(text.as_bytes())]).await).await;
        assert!(matches!(&end, Err(Error::Protocol(t)) if t.contains(why)), "{end:?}");
    }
}

#[tokio::test]
async fn a_failure_of_the_server_is_the_last_event() {
    let failure = "{\"type\":\"error\",\"seq\":1,\"failure\":{\"code\":\"EXECUTION_NOT_SAVED\",\
                   \"message\":\"full\",\"context\":{},\"httpStatus\":507,\"retryable\":false,\
                   \"timestamp\":\"2026-01-01T00:00:00.000Z\"}}\n";
    let text = [OUT, failure].concat();
    let (events, end) = run(&answers(vec![head(), chunk(text.as_bytes())]).await).await;
    end.unwrap();
    let CodeEvent::Error { failure: Some(failure), .. } = &events[1] else { panic!("{events:?}") };
    assert_eq!(failure.code, ErrorCode::ExecutionNotSaved);
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_the_execution_unknown() {
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec();
    for answer in [vec![], vec![cut]] {
        let client = Client::new(&answers(answer).await, None, None).unwrap();
        let error = client.execute(Place::Nowhere, &code()).await.unwrap_err();
        assert!(matches!(error, Error::UnknownCode(_)), "{error:?}");
    }
    assert!(unknown(run(&answers(vec![]).await).await.1));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        request(&mut socket).await;
        socket.write_all(&[head(), chunk(OUT.as_bytes())].concat()).await.unwrap();
        // Until the client is gone.
        tokio::io::AsyncReadExt::read(&mut socket, &mut [0; 1]).await.unwrap_or(0)
    });
    let mut stream = begin(&url).await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let seen = tokio::time::timeout(std::time::Duration::from_secs(30), server).await;
    assert_eq!(seen.expect("the server sees it").unwrap(), 0);
}

#[tokio::test]
async fn ids_of_contexts_lead_nowhere_else() {
    let client = Client::new("http://127.0.0.1:1", None, None).unwrap();
    for id in ["", ".", ".."] {
        let error = client.delete_context("a", id).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::ContextNotFound), "{id:?}");
        let error = client.delete_checkpoint("a", "c", id).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::CheckpointNotFound), "{id:?}");
    }
    for id in ["a/b", "a?b#c", "%2e", "ä\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let text = request(&mut socket).await;
            socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
            text
        });
        Client::new(&url, None, None).unwrap().delete_context("a", id).await.unwrap();
        let text = served.await.unwrap();
        let path = text.split(' ').nth(1).unwrap();
        let last = path.strip_prefix("/v1/sandboxes/a/contexts/").unwrap();
        assert!(!last.contains(['/', '?', '#']), "{path}");
    }
}
