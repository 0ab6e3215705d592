//! Traces of executions, for a collector.

use crate::rig::{SOON, builder, execute, started};
use e2e::{Receiver, eventually};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_is_told_of_as_a_part_of_its_request() {
    let collector = Receiver::new("200 OK", Duration::ZERO).await;
    let builder = builder()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url("/"))
        .env("OTEL_BSP_SCHEDULE_DELAY", "50");
    let server = started(builder).await;
    execute(&server, "t", "JAVASCRIPT", "6 * 7").await;
    let spans = eventually("all spans", SOON, || async {
        let (_, spans) = collector.spans();
        let whole = ["execution", "POST /v1/sandboxes/{id}/execute"];
        whole.iter().all(|name| spans.iter().any(|s| s.name == *name)).then_some(spans)
    })
    .await;
    let named = |name: &str| spans.iter().find(|span| span.name == name).expect("it is there");
    let request = named("POST /v1/sandboxes/{id}/execute");
    let execution = named("execution");
    assert_eq!(execution.parent_span_id, request.span_id);
    assert_eq!(execution.trace_id, request.trace_id);
    assert!(!format!("{spans:?}").contains("6 * 7"));
}
