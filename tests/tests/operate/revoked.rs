//! What is open when its token is revoked ends, and what others do goes on.

use crate::rig::SOON;
use client::Client;
use e2e::{Server, eventually, processes};
use serde_json::{Value, json};
use types::{NewToken, TokenRequest};

async fn token(server: &Server, expires_in_ms: Option<u64>) -> NewToken {
    let admin = Client::unix(&server.data.join("admin.sock"), None, None).expect("a client");
    let owner = Some("ada".parse().expect("an owner"));
    let request = TokenRequest { owner, expires_in_ms, ..TokenRequest::default() };
    admin.create_token(&request).await.expect("a token")
}

async fn revoke(server: &Server, token: &NewToken) {
    let admin = Client::unix(&server.data.join("admin.sock"), None, None).expect("a client");
    admin.revoke_token(&token.info.id).await.expect("revoked");
}

/// A request with a token; a body makes it a POST.
fn ask(server: &Server, token: &NewToken, path: &str, body: Value) -> reqwest::RequestBuilder {
    let url = format!("{}{path}", server.url);
    let request = if body.is_null() { server.http.get(url) } else { server.http.post(url) };
    let request = if body.is_null() { request } else { request.json(&body) };
    request.bearer_auth(&token.token)
}

/// A seconds' number that nobody else sleeps for.
fn nap(n: u32) -> String {
    format!("2{:07}{n}", std::process::id())
}

/// Reads a stream to its end.
async fn rest(answer: reqwest::Response) -> String {
    assert_eq!(answer.status(), 200);
    let text = tokio::time::timeout(SOON, answer.text()).await.expect("it ends");
    text.expect("in good order")
}

async fn there(nap: &str) {
    eventually("it runs", SOON, || async { (!processes(nap).is_empty()).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_ends_what_its_token_has_open() {
    let server = Server::start().await;
    let (bad, good) = (token(&server, None).await, token(&server, None).await);
    ask(&server, &bad, "/v1/sandboxes/s/exec", json!({ "argv": ["true"] })).send().await.unwrap();
    let command = |n| json!({ "argv": ["sh", "-c", format!("echo up; sleep {}", nap(n))] });
    let exec = |token, n| ask(&server, token, "/v1/sandboxes/s/exec", command(n));
    let lines = exec(&bad, 1).header("accept", "application/x-ndjson").send().await.unwrap();
    let whole = tokio::spawn(exec(&bad, 2).send());
    let others = tokio::spawn(exec(&good, 3).send());
    let follow = |token, path| {
        ask(&server, token, path, Value::Null).header("accept", "text/event-stream").send()
    };
    let events = follow(&bad, "/v1/events").await.unwrap();
    let watch = follow(&bad, "/v1/sandboxes/s/watch").await.unwrap();
    for n in 1..=3 {
        there(&nap(n)).await;
    }
    revoke(&server, &bad).await;
    let lines = rest(lines).await;
    let last: Value = serde_json::from_str(lines.lines().last().expect("a line")).unwrap();
    assert_eq!(
        (&last["type"], &last["error"]["code"]),
        (&"error".into(), &"UNAUTHENTICATED".into())
    );
    assert_eq!(last["seq"], 2, "behind start and stdout: {lines}");
    let whole = tokio::time::timeout(SOON, whole).await.expect("it ends").unwrap().unwrap();
    assert_eq!(whole.status(), 401);
    for stream in [events, watch] {
        let text = rest(stream).await;
        let last = text.trim_end().rsplit("\n\n").next().expect("a last event");
        assert!(last.starts_with("event: error\ndata: {\"code\":\"UNAUTHENTICATED\""), "{text}");
    }
    // The commands that were attached to it are gone with all their children; no other is.
    for n in 1..=2 {
        eventually("they are gone", SOON, || async { processes(&nap(n)).is_empty().then_some(()) })
            .await;
    }
    assert!(!processes(&nap(3)).is_empty());
    assert!(!others.is_finished());
    others.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_in_time_ends_what_follows_and_no_command() {
    let server = Server::start().await;
    let short = token(&server, Some(3000)).await;
    let body = json!({ "argv": ["sh", "-c", "sleep 6; echo done"] });
    let command = tokio::spawn(ask(&server, &short, "/v1/sandboxes/s/exec", body).send());
    let events = ask(&server, &short, "/v1/events", Value::Null)
        .header("accept", "text/event-stream")
        .send()
        .await
        .unwrap();
    // That of another token: what is not meant goes on.
    let other = token(&server, None).await;
    revoke(&server, &other).await;
    let text = tokio::time::timeout(SOON, events.text()).await.expect("it ends").unwrap();
    assert!(text.contains("event: error") && text.contains("UNAUTHENTICATED"), "{text}");
    let answer = tokio::time::timeout(SOON, command).await.expect("it ends").unwrap().unwrap();
    assert_eq!(answer.status(), 200, "a request that began in time");
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["stdout"], "done\n");
    let late = ask(&server, &short, "/v1/sandboxes/s", Value::Null).send().await.unwrap();
    assert_eq!(late.status(), 401);
}
