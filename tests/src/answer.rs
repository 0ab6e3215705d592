//! An answer, read whole.

use serde_json::Value;

/// Status, headers and body of an answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Fails unless the status is this; answers the JSON.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "answer: {}", self.text());
        self.json()
    }

    /// Fails unless it is an error of this code and status, with all fields that an error has.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str) -> Value {
        let body = self.expect(status);
        assert_eq!(body["code"], code, "answer: {body}");
        assert_eq!(body["httpStatus"], status, "answer: {body}");
        for field in ["message", "context", "retryable", "timestamp"] {
            assert!(!body[field].is_null(), "{field} is missing: {body}");
        }
        body
    }
}
