//! Bytes in JSON: text where they are UTF-8, else base64.

use crate::{Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use types::{CodeEvent, Encoding, ExecEvent, ExecResult, LogEntry, Stdin};

fn decode(text: &str, encoding: Option<Encoding>) -> Result<Vec<u8>> {
    match encoding {
        None => Ok(text.as_bytes().to_vec()),
        Some(Encoding::Base64) => STANDARD
            .decode(text)
            .map_err(|e| Error::Protocol(format!("the server sent broken base64: {e}"))),
    }
}

/// The bytes that a command wrote to standard output.
pub fn stdout_bytes(result: &ExecResult) -> Result<Vec<u8>> {
    decode(&result.stdout, result.encoding.and_then(|e| e.stdout))
}

/// The bytes that a command wrote to standard error.
pub fn stderr_bytes(result: &ExecResult) -> Result<Vec<u8>> {
    decode(&result.stderr, result.encoding.and_then(|e| e.stderr))
}

/// The bytes that an event carries; `None` for those that are no output.
pub fn event_bytes(event: &ExecEvent) -> Result<Option<Vec<u8>>> {
    match event {
        ExecEvent::Stdout { data, encoding, .. } | ExecEvent::Stderr { data, encoding, .. } => {
            decode(data, *encoding).map(Some)
        }
        _ => Ok(None),
    }
}

/// The bytes that an event of running code carries; `None` for those that are no output.
pub fn code_event_bytes(event: &CodeEvent) -> Result<Option<Vec<u8>>> {
    match event {
        CodeEvent::Stdout { text, encoding, .. } | CodeEvent::Stderr { text, encoding, .. } => {
            decode(text, *encoding).map(Some)
        }
        _ => Ok(None),
    }
}

/// The bytes of a piece of output.
pub fn log_bytes(entry: &LogEntry) -> Result<Vec<u8>> {
    decode(&entry.text, entry.encoding)
}

/// The bytes of one form of a result, whose MIME type is `mime`: text stands there as it is, all
/// else in base64. Code may give text as the form of any type: what is no base64 is that.
pub fn form_bytes(mime: &str, form: &str) -> Vec<u8> {
    let kind = mime.split(';').next().unwrap_or_default().trim();
    let text = kind.starts_with("text/")
        || ["json", "xml", "javascript"].iter().any(|end| kind.ends_with(end));
    let bytes = if text { None } else { STANDARD.decode(form).ok() };
    bytes.unwrap_or_else(|| form.as_bytes().to_vec())
}

/// Standard input of a command, exact.
pub fn stdin_of(bytes: Vec<u8>) -> Stdin {
    match String::from_utf8(bytes) {
        Ok(text) => Stdin::Text(text),
        Err(error) => Stdin::Bytes { base64: STANDARD.encode(error.as_bytes()) },
    }
}

/// A path as the two fields of a request that may name it: text, or base64 where it is no UTF-8.
pub fn path_fields(path: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(path) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(path))),
    }
}
