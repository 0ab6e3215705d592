//! Answers.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderName, HeaderValue,
    RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use serde::Serialize;
use serde_json::Value;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use types::{AccountFailure, Error, ErrorBody, ErrorCode, Result};

/// What a request is called in the log and in its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestId(u64);

impl RequestId {
    /// A new one; it tells nothing of how many there were before.
    pub fn new() -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self(KEY.hash_one(COUNT.fetch_add(1, Ordering::Relaxed)))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What tokens begin with.
const TOKEN: &str = "sandkeep_";
/// What is so long behind that is taken for a token, characters.
const SECRET: usize = 40;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer with a body of `kind`.
pub(crate) fn bytes(status: StatusCode, kind: HeaderValue, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// A value as JSON. Errors: `INTERNAL` where it cannot be written as such.
pub(crate) fn text<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|e| Error::new(ErrorCode::Internal, format!("an answer has no JSON: {e}")))
}

/// An answer in JSON. Errors: as [`text`].
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Response> {
    Ok(bytes(status, JSON, text(value)?))
}

/// 200 in JSON.
pub(crate) fn ok<T: Serialize>(value: &T) -> Result<Response> {
    json(StatusCode::OK, value)
}

/// Bytes that are handed to the connection at once.
const PIECE: usize = 64 * 1024;

/// 200 in JSON. What takes `room` goes in pieces and keeps it until the last is on its way: a slow
/// reader's answer counts for as long as it is there.
pub(crate) fn kept<T: Serialize, R: Send + 'static>(
    value: &T,
    room: impl IntoIterator<Item = R>,
) -> Result<Response> {
    let room: Vec<R> = room.into_iter().collect();
    if room.is_empty() {
        return ok(value);
    }
    let text = Bytes::from(text(value)?);
    let length = HeaderValue::from(text.len());
    let pieces = futures::stream::unfold((text, room), |(mut rest, room)| async {
        let piece = rest.split_to(rest.len().min(PIECE));
        (!piece.is_empty()).then(|| (Ok::<_, io::Error>(piece), (rest, room)))
    });
    let mut response = bytes(StatusCode::OK, JSON, Body::from_stream(pieces));
    response.headers_mut().insert(CONTENT_LENGTH, length);
    Ok(response)
}

/// 204.
pub(crate) fn done() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// How an error is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As an [`ErrorBody`].
    Own,
    /// As an [`AccountFailure`].
    Account,
}

impl Shape {
    /// That of a path, whether or not anything is there.
    pub fn of(path: &str) -> Self {
        let below =
            path.strip_prefix("/client/v4").is_some_and(|p| p.is_empty() || p.starts_with('/'));
        if below { Shape::Account } else { Shape::Own }
    }
}

/// The answer that tells of `error`.
pub(crate) fn error(private: &[PathBuf], id: &RequestId, error: Error, shape: Shape) -> Response {
    let error = shown(private, id, error);
    let (code, allow) = (error.code, error.context.get("allow").and_then(Value::as_str));
    let size = error.context.get("size").and_then(Value::as_u64);
    let size = size.and_then(|size| HeaderValue::from_str(&format!("bytes */{size}")).ok());
    let allow = allow.and_then(|a| HeaderValue::from_str(a).ok());
    let after = error.context.get("retryAfterMs").and_then(Value::as_u64);
    let after = after.map_or(1, |ms| ms.div_ceil(1000).max(1));
    let retryable = error.retryable();
    let status = StatusCode::from_u16(error.http_status());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = match shape {
        Shape::Own => serde_json::to_vec(&error.body(now_ms())),
        Shape::Account => serde_json::to_vec(&AccountFailure::from(&error)),
    }
    .unwrap_or_default();
    let mut response = bytes(status, JSON, text);
    let headers = response.headers_mut();
    match code {
        ErrorCode::Unauthenticated => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        ErrorCode::MethodNotAllowed => headers.extend(allow.map(|allow| (ALLOW, allow))),
        ErrorCode::RangeNotSatisfiable => headers.extend(size.map(|size| (CONTENT_RANGE, size))),
        ErrorCode::TooManyRequests | ErrorCode::Unavailable | ErrorCode::MemoryShort => {
            headers.insert(RETRY_AFTER, HeaderValue::from(after));
        }
        ErrorCode::QuotaExceeded if retryable => {
            headers.insert(RETRY_AFTER, HeaderValue::from(after));
        }
        _ => {}
    }
    response
}

/// What every answer carries.
pub(crate) fn finish(response: &mut Response, id: &RequestId) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
}

/// The error as the caller may see it: a 5xx tells no path of the host, and a fault of ours
/// nothing but where to look it up. The log has it as it was.
pub(crate) fn shown(private: &[PathBuf], id: &RequestId, mut error: Error) -> Error {
    // What a caller wrote where a name belongs may be a token, and answers are kept and shown.
    error.message = without_tokens(&error.message);
    error.context.values_mut().for_each(|value| change(value, &without_tokens));
    if error.http_status() < 500 {
        return error;
    }
    let context = Value::Object(error.context.clone());
    tracing::error!(%id, code = %error.code, message = %error.message, %context, "failed");
    if error.code == ErrorCode::Internal {
        let message = format!("the server failed; its log tells why at request {id}");
        return Error::new(ErrorCode::Internal, message).with("requestId", id.to_string());
    }
    error.message = without_paths(private, &error.message);
    let hide = |text: &str| without_paths(private, text);
    error.context.values_mut().for_each(|value| change(value, &hide));
    error
}

/// The same for an error that is told inside a stream.
pub(crate) fn shown_body(private: &[PathBuf], id: &RequestId, body: ErrorBody) -> ErrorBody {
    let timestamp = body.timestamp.clone();
    ErrorBody { timestamp, ..shown(private, id, body.into()).body(0) }
}

/// Changes every text in a value.
fn change(value: &mut Value, by: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = by(text),
        Value::Array(all) => all.iter_mut().for_each(|value| change(value, by)),
        Value::Object(all) => all.values_mut().for_each(|value| change(value, by)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// `text` without the secret part of what may be tokens.
fn without_tokens(text: &str) -> String {
    let mut parts = text.split(TOKEN);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let of_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let end = part.find(|c| !of_token(c)).unwrap_or(part.len());
        shown += TOKEN;
        shown += if end < SECRET { &part[..end] } else { "(a secret)" };
        shown += &part[end..];
    }
    shown
}

/// `text` with every path below one of `private` replaced.
fn without_paths(private: &[PathBuf], text: &str) -> String {
    let mut text = text.to_owned();
    for directory in private.iter().filter_map(|p| p.to_str()).filter(|p| p.len() > 1) {
        while let Some(start) = text.find(directory) {
            let ends =
                |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ':' | ',' | ')');
            let after = start + directory.len();
            let end = text[after..].find(ends).map_or(text.len(), |n| after + n);
            text.replace_range(start..end, "(a path of the server)");
        }
    }
    text
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
