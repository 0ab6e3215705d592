//! Traces for a collector: whole, part of the caller's, and nobody's business otherwise.

use crate::rig::{SOON, as_owner, run, with_file};
use e2e::{Builder, Receiver, Server, attribute, eventually};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How to start a server that tells this collector.
fn telling(directory: &tempfile::TempDir, endpoint: &str) -> Builder {
    with_file(directory.path(), &format!("[otel]\nendpoint = {endpoint:?}\n"))
        .env("OTEL_BSP_SCHEDULE_DELAY", "50")
}

async fn within(server: &Server, parent: &str, id: &str, argv: &[&str]) {
    let headers = [("traceparent", parent), ("content-type", "application/json")];
    let body = json!({ "argv": argv }).to_string().into_bytes();
    let path = format!("/v1/sandboxes/{id}/exec");
    server.send("POST", &path, &headers, Some(body)).await.expect("an answer").expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_told_of_with_its_start_as_a_part_of_the_callers_trace() {
    let collector = Receiver::new("200 OK", Duration::ZERO).await;
    let directory = tempfile::tempdir().expect("a directory");
    let server = telling(&directory, &collector.url("")).start().await;
    within(&server, &format!("00-{TRACE}-{CALLER}-01"), "t", &["sh", "-c", "exit 3"]).await;
    let (resource, spans) = eventually("all spans", SOON, || async {
        let (resource, spans) = collector.spans();
        let names = ["exec", "start", "POST /v1/sandboxes/{id}/exec"];
        let whole = names.iter().all(|name| spans.iter().any(|span| span.name == *name));
        whole.then_some((resource, spans))
    })
    .await;
    assert_eq!(attribute(&resource, "service.name"), "sandkeep");
    assert_ne!(attribute(&resource, "service.version"), "");
    let one = |name: &str| {
        let mut found = spans.iter().filter(|span| span.name == name);
        let one = found.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(found.next().is_none(), "{name} is told of once");
        assert_eq!(hex(&one.trace_id), TRACE, "{name}");
        assert!(one.start_time_unix_nano < one.end_time_unix_nano, "{name}");
        one.clone()
    };
    let request = one("POST /v1/sandboxes/{id}/exec");
    assert_eq!(hex(&request.parent_span_id), CALLER);
    assert_eq!(attribute(&request.attributes, "http.response.status_code"), "200");
    assert_ne!(attribute(&request.attributes, "request.id"), "");
    let (instance, start, exec) = (one("instance"), one("start"), one("exec"));
    assert_eq!(instance.parent_span_id, request.span_id);
    assert_eq!(start.parent_span_id, instance.span_id);
    assert_eq!(attribute(&start.attributes, "generation"), "1");
    assert_eq!(exec.parent_span_id, request.span_id);
    assert_eq!(attribute(&exec.attributes, "process.exit.code"), "3");
    assert!(start.end_time_unix_nano <= exec.start_time_unix_nano, "first it starts");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_sampled_is_not_told_of_and_neither_is_what_somebody_wrote() {
    let collector = Receiver::new("200 OK", Duration::ZERO).await;
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = telling(&directory, &collector.url("/")).start().await;
    within(&server, &format!("00-{TRACE}-{CALLER}-00"), "quiet", &["true"]).await;
    // What is no traceparent begins a trace.
    within(&server, "00-nonsense", "told", &["echo", "a-secret-word"]).await;
    let answer =
        as_owner(&server, "carol", "GET", "/v1/sandboxes/other?limit=1", Value::Null).await;
    assert_eq!(answer.status, 400);
    // The end sends what waits.
    assert!(server.terminate().success());
    let (_, spans) = collector.spans();
    assert!(spans.iter().all(|span| hex(&span.trace_id) != TRACE));
    let roots = spans.iter().filter(|span| span.parent_span_id.is_empty());
    let mut names: Vec<_> = roots.map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["GET /v1/sandboxes/{id}", "POST /v1/sandboxes/{id}/exec"]);
    let all = format!("{spans:?}");
    for word in ["a-secret-word", "carol", "told", "other"] {
        assert!(!all.contains(word), "{word}: {all}");
    }
    // Nor has the log anything of them.
    assert!(!server.talk().iter().any(|line| line.contains("otel")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_or_hangs_delays_nobody() {
    let directory = tempfile::tempdir().expect("a directory");
    let hangs = Receiver::new("200 OK", Duration::from_secs(3600)).await;
    for endpoint in ["http://127.0.0.1:1", &hangs.url("")] {
        let mut server = telling(&directory, endpoint).start().await;
        for _ in 0..20 {
            run(&server, "t", &["true"], "").await.expect(200);
        }
        let began = Instant::now();
        assert!(server.terminate().success());
        // Generous: it would be an hour.
        assert!(began.elapsed() < SOON);
    }
}

#[test]
fn an_endpoint_that_is_no_url_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    for endpoint in ["collector:4318", "ftp://collector", "http://", ""] {
        let file = directory.path().join("sandkeep.toml");
        std::fs::write(&file, format!("[otel]\nendpoint = {endpoint:?}\n")).expect("a file");
        let file = file.display().to_string();
        let words = ["serve", "--listen", "127.0.0.1:0", "--config", &file];
        let output = crate::rig::sandkeep(&words, &directory.path().join("data"));
        assert_eq!(output.status.code(), Some(125), "{endpoint}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("{endpoint:?}")), "{said}");
        assert!(said.contains("127.0.0.1:4318"), "{said}");
    }
}
