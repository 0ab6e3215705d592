//! Requests that are no HTTP never reach a handler: hyper refuses them by itself, with a bare
//! head. This module knows such a head when it is about to be written, and puts an answer of the
//! usual shape in its place.

use crate::reply::{self, RequestId};
use types::{Error, ErrorCode};

/// Longest head that hyper makes for this, bytes.
const LONGEST: usize = 256;

/// What to write instead of `bytes`, where they are such a head and nothing else. Answers of
/// ours carry a request id; `bytes` must not begin within one.
pub(crate) fn in_place_of(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() > LONGEST || !bytes.starts_with(b"HTTP/1.1 4") || !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let head = std::str::from_utf8(bytes).ok()?.to_ascii_lowercase();
    if !head.contains("\r\ncontent-length: 0\r\n") || head.contains("\r\nx-request-id:") {
        return None;
    }
    let error = match head.get(9..12)? {
        "431" => too_large("the head of the request is too large, or has too many fields"),
        "414" => too_large("the address of the request is too long"),
        "400" => Error::new(ErrorCode::ValidationFailed, "this is not a well-formed HTTP request"),
        _ => return None,
    };
    let id = RequestId::new();
    tracing::debug!(%id, code = %error.code, "refused what is no request");
    let status = error.code.http_status();
    let body = serde_json::to_string(&error.body(reply::now_ms())).ok()?;
    let length = body.len();
    Some(
        format!(
            "HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\n\
             cache-control: no-store\r\nx-content-type-options: nosniff\r\nx-request-id: {id}\r\n\
             connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes(),
    )
}

fn too_large(message: &str) -> Error {
    Error::new(ErrorCode::RequestTooLarge, message)
}
