//! Running code: whole, or as a stream of events in either of two forms.

use crate::dispatch::Call;
use crate::{accept, json, reply};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use sandbox::CodeStream;
use std::io;
use types::{
    BindingList, CodeEvent, CodeRequest, CodeResult, EngineList, Error, Owner, Result, SandboxName,
};

/// Run code in a context
///
/// Runs code in the context in the path. Errors of the code, and limits that it meets, are
/// results. The context's memory, working directory and count are saved before the answer; where
/// a limit ended the code they are as before it (`rolledBack`), files are not. With
/// `Accept: application/x-ndjson` or `text/event-stream` the answer is a stream of events, which
/// ends with `end`; one that ends without it says nothing of the code's end. A client that goes
/// away stops the code.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts/{ctx}/execute", tag = "code", operation_id = "executeInContext",
    request_body = CodeRequest,
    responses((status = 200, description = "The code ended, however; or the stream of its events.",
        content((CodeResult = "application/json"), (CodeEvent = "application/x-ndjson"), (serde_json::Value = "text/event-stream")))))]
pub(crate) async fn in_context(mut call: Call, name: SandboxName) -> Result<Response> {
    let mut request = read(&mut call)?;
    let context = call.named("ctx")?.to_owned();
    let stray = [
        ("contextId", request.context_id.is_some()),
        ("binding", request.binding.is_some()),
        ("language", request.language.is_some()),
    ];
    if let Some((field, _)) = stray.into_iter().find(|(_, given)| *given) {
        let message = format!("{field} says nothing here: the context stands in the path");
        return Err(Error::invalid(field, message));
    }
    request.context_id = Some(context);
    run(call, Some(name), request).await
}

/// Run code in a sandbox
///
/// Runs code in the context of `contextId`, else in the default context of `binding` or
/// `language`: the oldest of that binding, made where there is none. The sandbox comes into being
/// where it is not there. Else as the execution in a context.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/execute", tag = "code", operation_id = "execute",
    request_body = CodeRequest,
    responses((status = 200, description = "The code ended, however; or the stream of its events.",
        content((CodeResult = "application/json"), (CodeEvent = "application/x-ndjson"), (serde_json::Value = "text/event-stream")))))]
pub(crate) async fn in_sandbox(mut call: Call, name: SandboxName) -> Result<Response> {
    let request = read(&mut call)?;
    run(call, Some(name), request).await
}

/// Run code without a sandbox
///
/// Runs code in an interpreter that is thrown away: nothing of a sandbox is there, its
/// `/workspace` is empty, and nothing is kept.
#[utoipa::path(post, path = "/v1/execute", tag = "code", operation_id = "executeStateless",
    request_body = CodeRequest,
    responses((status = 200, description = "The code ended, however; or the stream of its events.",
        content((CodeResult = "application/json"), (CodeEvent = "application/x-ndjson"), (serde_json::Value = "text/event-stream")))))]
pub(crate) async fn stateless(mut call: Call, _: Owner) -> Result<Response> {
    let request = read(&mut call)?;
    run(call, None, request).await
}

/// List bindings
///
/// The names under which code can be run, in order: the first of a language is the one that
/// `language` means. What is not installed is told too.
#[utoipa::path(get, path = "/v1/bindings", tag = "code", operation_id = "listBindings",
    responses((status = 200, description = "The bindings.", body = BindingList)))]
pub(crate) async fn bindings(call: Call, _: Owner) -> Result<Response> {
    reply::ok(&BindingList { bindings: call.app.sandboxes.bindings() })
}

/// List builds of engines
///
/// The builds that are installed, and those that the memory of contexts belongs to. One that is
/// in use and not installed cannot be replaced by another: its contexts wait for it.
#[utoipa::path(get, path = "/v1/admin/engines", tag = "code", operation_id = "listEngines",
    responses((status = 200, description = "The builds.", body = EngineList)))]
pub(crate) async fn engines(call: Call) -> Result<Response> {
    reply::ok(&EngineList { engines: call.app.sandboxes.engines().await? })
}

fn read(call: &mut Call) -> Result<CodeRequest> {
    // The text and what is read from it need not both be kept while the code runs.
    let request: CodeRequest = json::parse(&std::mem::take(&mut call.body))?;
    request.validate()?;
    Ok(request)
}

async fn run(call: Call, name: Option<SandboxName>, request: CodeRequest) -> Result<Response> {
    let sandboxes = call.app.sandboxes.clone();
    let Some(kind) = accept::first_of(&call.headers, &[accept::LINES, accept::EVENTS]) else {
        let end = async {
            match &name {
                Some(name) => sandboxes.execute(name, request).await,
                None => sandboxes.execute_stateless(request).await,
            }
        };
        return tokio::select! {
            ended = end => reply::ok(&ended?),
            error = call.gone() => Err(error),
        };
    };
    let events = match &name {
        Some(name) => sandboxes.execute_stream(name, request).await?,
        None => sandboxes.execute_stateless_stream(request).await?,
    };
    let write = if kind == accept::LINES { line } else { event };
    let body = stream(call, events, write);
    Ok(reply::bytes(StatusCode::OK, HeaderValue::from_static(kind), body))
}

type Write = fn(&CodeEvent) -> serde_json::Result<Vec<u8>>;

/// A body of all events. Dropping it drops `events`, which stops the code.
fn stream(call: Call, events: CodeStream, write: Write) -> Body {
    Body::from_stream(futures::stream::unfold(Some((call, events)), move |state| async move {
        let (call, mut events) = state?;
        let (next, last) = tokio::select! {
            next = events.next() => (next?, false),
            error = call.gone() => (events.break_off(&error), true),
        };
        let next = match next {
            CodeEvent::Error { seq, error, failure: Some(failure) } => {
                let failure = reply::shown_body(&call.app.private, &call.id, failure);
                CodeEvent::Error { seq, error, failure: Some(failure) }
            }
            other => other,
        };
        let text = write(&next).map(Bytes::from).map_err(io::Error::from);
        Some((text, (!last).then_some((call, events))))
    }))
}

fn line(event: &CodeEvent) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    Ok(line)
}

fn event(event: &CodeEvent) -> serde_json::Result<Vec<u8>> {
    let (kind, seq) = match event {
        CodeEvent::Stdout { seq, .. } => ("stdout", seq),
        CodeEvent::Stderr { seq, .. } => ("stderr", seq),
        CodeEvent::Result { seq, .. } => ("result", seq),
        CodeEvent::Error { seq, .. } => ("error", seq),
        CodeEvent::Ping { seq } => ("ping", seq),
        CodeEvent::End { seq, .. } => ("end", seq),
    };
    let mut text = format!("event: {kind}\nid: {seq}\ndata: ").into_bytes();
    // JSON has no line end inside.
    serde_json::to_writer(&mut text, event)?;
    text.extend_from_slice(b"\n\n");
    Ok(text)
}
