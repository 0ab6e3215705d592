//! Running a command: whole, or as a stream of events.

use crate::dispatch::Call;
use crate::{accept, json, quotas, reply};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use sandbox::{Collected, ExecStream};
use std::io;
use types::{ExecEvent, ExecRequest, ExecResult, Result, SandboxName};

/// Run a command
///
/// Runs a command, making the sandbox and starting an instance where needed. With
/// `Accept: application/x-ndjson` the answer is a stream of events, one JSON object a line;
/// a stream that ends without `exit` or `error` says nothing of the command's end. A client
/// that goes away ends the command and all its children.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/exec", tag = "commands", operation_id = "exec",
    params(("waitMs" = Option<u32>, Query, minimum = 0, maximum = 60_000, description = "Wait so long for room where a limit keeps the instance from starting; the server's setting by default, which is 0 as a rule.")),
    request_body = ExecRequest,
    responses((status = 200, description = "The command ended, with whatever code; or the stream of its events.",
        content((ExecResult = "application/json"), (ExecEvent = "application/x-ndjson")))))]
pub(crate) async fn v1(call: Call, name: SandboxName) -> Result<Response> {
    run(call, name).await
}

/// Run a command in a user's sandbox
///
/// As `POST /v1/sandboxes/{id}/exec`, in the sandbox of the user in the path.
#[utoipa::path(post, path = "/users/{owner}/sandboxes/{session}", tag = "users", operation_id = "execUserSandbox",
    params(("waitMs" = Option<u32>, Query, minimum = 0, maximum = 60_000, description = "Wait so long for room where a limit keeps the instance from starting; the server's setting by default, which is 0 as a rule.")),
    request_body = ExecRequest,
    responses((status = 200, description = "The command ended, with whatever code; or the stream of its events.",
        content((ExecResult = "application/json"), (ExecEvent = "application/x-ndjson")))))]
pub(crate) async fn of_a_user(call: Call, name: SandboxName) -> Result<Response> {
    run(call, name).await
}

/// Run a command in one's own sandbox
///
/// As `POST /v1/sandboxes/{id}/exec`.
#[utoipa::path(post, path = "/sandboxes/{name}", tag = "own", operation_id = "execOwnSandbox",
    params(("waitMs" = Option<u32>, Query, minimum = 0, maximum = 60_000, description = "Wait so long for room where a limit keeps the instance from starting; the server's setting by default, which is 0 as a rule.")),
    request_body = ExecRequest,
    responses((status = 200, description = "The command ended, with whatever code; or the stream of its events.",
        content((ExecResult = "application/json"), (ExecEvent = "application/x-ndjson")))))]
pub(crate) async fn own(call: Call, name: SandboxName) -> Result<Response> {
    run(call, name).await
}

async fn run(mut call: Call, name: SandboxName) -> Result<Response> {
    // The text and what is read from it need not both be kept while the command runs.
    let request: ExecRequest = json::parse(&std::mem::take(&mut call.body))?;
    request.validate()?;
    let wait = quotas::wait(&call)?;
    if accept::first_of(&call.headers, &[accept::LINES]).is_some() {
        let events = tokio::select! {
            events = call.app.sandboxes.exec_stream(&name, request, wait) => events?,
            error = call.gone() => return Err(error),
        };
        let kind = HeaderValue::from_static(accept::LINES);
        return Ok(reply::bytes(StatusCode::OK, kind, lines(call, events)));
    }
    tokio::select! {
        ended = call.app.sandboxes.exec(&name, request, wait) => collected(ended?),
        error = call.gone() => Err(error),
    }
}

/// The whole end as JSON.
fn collected(ended: Collected) -> Result<Response> {
    reply::kept(&ended.result, ended.room)
}

/// A body of one line for each event. Dropping it drops `events`, which ends the command.
fn lines(call: Call, events: ExecStream) -> Body {
    Body::from_stream(futures::stream::unfold(Some((call, events)), |state| async {
        let (call, mut events) = state?;
        let (next, last) = tokio::select! {
            next = events.next() => (next?, false),
            error = call.gone() => (events.break_off(&error), true),
        };
        let next = match next {
            ExecEvent::Error { seq, error } => ExecEvent::Error {
                seq,
                error: reply::shown_body(&call.app.private, &call.id, error),
            },
            other => other,
        };
        let line = serde_json::to_vec(&next).map_err(io::Error::from).map(|mut line| {
            line.push(b'\n');
            Bytes::from(line)
        });
        Some((line, (!last).then_some((call, events))))
    }))
}
