//! Executions as streams of events, in both forms.

use crate::rig::*;
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::time::Duration;

const CODE: &str = "console.log('one'); console.error('two'); display({ a: 1 }); 6 * 7";

fn check(events: &[Value]) {
    let kinds: Vec<_> = events.iter().map(|e| e["type"].as_str().expect("text")).collect();
    assert_eq!(kinds, ["stdout", "stderr", "result", "result", "end"], "{events:#?}");
    for (i, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], i, "{events:#?}");
    }
    assert_eq!((&events[0]["text"], &events[1]["text"]), (&json!("one\n"), &json!("two\n")));
    assert_eq!(events[2]["result"]["json"], json!({ "a": 1 }));
    assert_eq!(events[3]["result"]["text"], "42");
    let end = &events[4]["result"];
    assert_eq!((&end["results"], &end["logs"]["entries"]), (&json!([]), &json!([])));
    assert_eq!(end["rolledBack"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_as_lines_or_as_server_sent_ones() {
    let server = server().await;
    let body = json!({ "code": CODE, "binding": "JAVASCRIPT" }).to_string().into_bytes();
    let send = async |path: &str, accept: &str| {
        let headers = [("content-type", "application/json"), ("accept", accept)];
        server.send("POST", path, &headers, Some(body.clone())).await.expect("an answer")
    };
    for path in ["/v1/sandboxes/s/execute", "/v1/execute"] {
        let answer = send(path, "application/x-ndjson").await;
        assert_eq!(answer.status, 200);
        let lines = answer.text();
        let events: Vec<Value> =
            lines.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        check(&events);

        let answer = send(path, "text/event-stream").await;
        assert!(answer.headers.contains(&("content-type".into(), "text/event-stream".into())));
        let text = answer.text();
        let mut events = Vec::new();
        for block in text.split_terminator("\n\n") {
            let mut fields = block.lines().map(|line| line.split_once(": ").expect("a field"));
            let (kind, id, data) = (fields.next(), fields.next(), fields.next());
            let event: Value = serde_json::from_str(data.expect("data").1).expect("JSON");
            assert_eq!(kind, Some(("event", event["type"].as_str().expect("text"))));
            assert_eq!(id.expect("an id").1, event["seq"].to_string());
            events.push(event);
        }
        check(&events);
    }
    // Nobody asks for a stream: one answer, with all in it.
    let answer = send("/v1/sandboxes/s/execute", "application/x-ndjson;q=0, */*").await.expect(200);
    assert_eq!(answer["results"].as_array().expect("a list").len(), 2);
    assert_eq!(answer["results"][1]["json"], 42);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_comes_before_the_end() {
    let server = server().await;
    let body = json!({ "code": "console.log(1); null.x", "binding": "JAVASCRIPT" });
    let headers = [("content-type", "application/json"), ("accept", "application/x-ndjson")];
    let body = Some(body.to_string().into_bytes());
    let answer =
        server.send("POST", "/v1/sandboxes/s/execute", &headers, body).await.expect("sent");
    let lines = answer.text();
    let events: Vec<Value> =
        lines.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let kinds: Vec<_> = events.iter().map(|e| e["type"].as_str().expect("text")).collect();
    assert_eq!(kinds, ["stdout", "error", "end"], "{events:#?}");
    assert_eq!(events[1]["error"]["name"], "TypeError");
    assert_eq!(events[2]["result"]["error"]["name"], "TypeError");
    // What did not run is an answer of its own, and no stream.
    let body = Some(json!({ "code": "1", "contextId": "none" }).to_string().into_bytes());
    let answer =
        server.send("POST", "/v1/sandboxes/s/execute", &headers, body).await.expect("sent");
    answer.expect_error(404, "CONTEXT_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_comes_while_the_code_runs() {
    let server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    let url = format!("{}/v1/sandboxes/s/contexts/{id}/execute", server.url);
    let code = "console.log('begun'); for (;;) {}";
    let answer = server
        .http
        .post(url)
        .header("accept", "application/x-ndjson")
        .json(&json!({ "code": code, "timeoutMs": 600_000 }))
        .send()
        .await
        .expect("an answer");
    let mut pieces = answer.bytes_stream();
    let first = tokio::time::timeout(SOON, pieces.next()).await.expect("while it runs");
    let first = first.expect("a piece").expect("whole");
    assert!(String::from_utf8_lossy(&first).contains("begun"), "{first:?}");
    drop(pieces);
    // Nobody reads any more: it is stopped, and the next one has its turn.
    let next = tokio::time::timeout(SOON, run(&server, "s", &id, "1 + 1")).await;
    assert_eq!(text(&next.expect("its turn comes")), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_stream_pings() {
    let server = server().await;
    let url = format!("{}/v1/execute", server.url);
    let code = "const end = Date.now() + 14000; while (Date.now() < end) {}";
    let answer = server
        .http
        .post(url)
        .header("accept", "text/event-stream")
        .json(&json!({ "code": code, "binding": "JAVASCRIPT" }))
        .timeout(Duration::from_secs(90))
        .send()
        .await
        .expect("an answer");
    let text = answer.text().await.expect("whole");
    assert!(text.contains("event: ping"), "{text}");
    assert!(text.contains("event: end"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn code_stops_when_its_token_is_revoked() {
    let server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "let x = 1").await;
    let admin = client::Client::unix(&server.data.join("admin.sock"), None, None).expect("one");
    let owner = Some("local".parse().expect("an owner"));
    let request = types::TokenRequest { owner, ..types::TokenRequest::default() };
    let [bad, good] = [admin.create_token(&request).await, admin.create_token(&request).await]
        .map(|token| token.expect("a token"));
    let url = format!("{}/v1/sandboxes/s/contexts/{id}/execute", server.url);
    let code = "x = 2; console.log('begun'); for (;;) {}";
    let body = json!({ "code": code, "timeoutMs": 600_000 });
    let send = server.http.post(&url).bearer_auth(&bad.token).json(&body);
    let answer = send.header("accept", "application/x-ndjson").send().await.expect("an answer");
    let mut pieces = answer.bytes_stream();
    let first = tokio::time::timeout(SOON, pieces.next()).await.expect("while it runs");
    assert!(first.is_some());
    admin.revoke_token(&bad.info.id).await.expect("revoked");
    let mut text = String::new();
    while let Some(piece) = tokio::time::timeout(SOON, pieces.next()).await.expect("it ends") {
        text += &String::from_utf8_lossy(&piece.expect("in good order"));
    }
    let last: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["failure"]["code"], "UNAUTHENTICATED", "{text}");
    // The next one has its turn, and a memory that knows nothing of it.
    let next = server.http.post(&url).bearer_auth(&good.token).json(&json!({ "code": "x" }));
    let next: Value = next.send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(super::rig::text(&next), "1");
}
