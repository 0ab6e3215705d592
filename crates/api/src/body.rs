//! Reading request bodies: bounded in size, in time, and in memory over all requests.

use crate::{App, json};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use hyper::{HeaderMap, header};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use types::{Error, ErrorCode, Result};

/// Bodies up to this are read without asking for room; the number of connections bounds them.
const FREE: usize = 64 << 10;
/// Room for larger bodies that are being read, bytes.
const ROOM: usize = 256 << 20;
/// How long a body waits for room.
const ROOM_WAIT: Duration = Duration::from_secs(10);
/// A body must be here within this, however steadily it comes.
const WHOLE: Duration = Duration::from_secs(600);
/// The same for one that is read as it comes.
const STREAM: Duration = Duration::from_secs(3600);
/// How much of a refused body is read, and for how long, so that its sender gets to the answer.
const DISCARD: (usize, Duration) = (64 << 20, Duration::from_secs(5));

/// Room for the bodies that are being read. Counted in KiB.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM >> 10)))
    }
}

impl Budget {
    async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let permit = timeout(ROOM_WAIT, self.0.clone().acquire_many_owned(kib)).await;
        permit.ok().and_then(|permit| permit.ok()).ok_or_else(|| {
            Error::new(ErrorCode::TooManyRequests, "too many large requests are being read")
        })
    }
}

/// The body, with its content type checked; empty only where it is not `required`. Errors:
/// `REQUEST_TOO_LARGE`, `UNSUPPORTED_MEDIA_TYPE`, `VALIDATION_FAILED`, `TOO_MANY_REQUESTS`.
pub(crate) async fn read(
    app: &App,
    body: &mut Body,
    headers: &HeaderMap,
    limit: usize,
    required: bool,
) -> Result<Bytes> {
    let hint = body.size_hint();
    if hint.lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let announced = hint.exact() != Some(0);
    if announced {
        json::check_type(headers)?;
    }
    let bytes = collect(app, body, limit).await.inspect_err(|error| {
        // Nobody sends the rest of a body that stopped coming.
        if error.code == ErrorCode::ValidationFailed {
            *body = Body::empty();
        }
    })?;
    if required && bytes.iter().all(u8::is_ascii_whitespace) {
        let message = "the body is empty: send a JSON object (content-type: application/json)";
        return Err(Error::invalid("body", message));
    }
    if !bytes.is_empty() && !headers.contains_key(header::CONTENT_TYPE) && !json::is_json(&bytes) {
        return Err(json::wrong_type("the body has no content type and is not JSON"));
    }
    Ok(bytes)
}

async fn collect(app: &App, body: &mut Body, limit: usize) -> Result<Bytes> {
    let end = Instant::now() + WHOLE;
    let mut bytes = BytesMut::new();
    let mut room = None;
    if let Some(size) = body.size_hint().exact().and_then(|n| usize::try_from(n).ok())
        && size > FREE
    {
        room = Some(app.bodies.take(size).await?);
    }
    loop {
        let next = (Instant::now() + app.limits.body_timeout).min(end);
        let Ok(frame) = timeout_at(next, body.frame()).await else {
            return Err(Error::invalid("body", "the body did not arrive in time"));
        };
        let Some(frame) = frame else { return Ok(bytes.freeze()) };
        let frame = frame.map_err(|_| Error::invalid("body", "the body broke off"))?;
        let Ok(data) = frame.into_data() else { continue };
        let size = bytes.len() + data.len();
        if size > limit {
            return Err(too_large(limit));
        }
        if size > FREE && room.is_none() {
            room = Some(app.bodies.take(limit).await?);
        }
        bytes.extend_from_slice(&data);
    }
}

/// A body that its route reads itself, as it comes.
#[derive(Default)]
pub(crate) struct Incoming {
    body: Body,
    /// The sender waits to be asked for it.
    expects: bool,
    pause: Duration,
    end: Option<Instant>,
}

impl Incoming {
    /// Takes the body over. Errors: `UNSUPPORTED_MEDIA_TYPE`.
    pub fn take(app: &App, body: &mut Body, headers: &HeaderMap) -> Result<Self> {
        if headers.get(header::CONTENT_ENCODING).is_some_and(|e| e != "identity") {
            let message =
                "bodies with a content-encoding are not taken: send the bytes as they are";
            return Err(Error::new(ErrorCode::UnsupportedMediaType, message));
        }
        let expects = headers.contains_key(header::EXPECT);
        let pause = app.limits.body_timeout;
        Ok(Self { body: std::mem::take(body), expects, pause, end: None })
    }

    /// How many bytes come, where the sender says so.
    pub fn size(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next bytes; `None` at the end. Errors: `VALIDATION_FAILED` where it breaks off, pauses
    /// too long or takes too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let end = *self.end.get_or_insert_with(|| Instant::now() + STREAM);
        self.expects = false;
        loop {
            let next = (Instant::now() + self.pause).min(end);
            let Ok(frame) = timeout_at(next, self.body.frame()).await else {
                // Nobody sends the rest.
                self.body = Body::empty();
                return Err(Error::invalid("body", "the body did not arrive in time"));
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|_| Error::invalid("body", "the body broke off"))?;
            match frame.into_data() {
                Ok(data) if !data.is_empty() => return Ok(Some(data)),
                _ => {}
            }
        }
    }

    /// Reads what is left, within bounds, so that its sender gets to the answer.
    pub fn refuse(self) {
        if !self.expects {
            discard(self.body);
        }
    }
}

/// Reads on, within bounds, what a refused request still sends, while its answer is on the way:
/// a sender that listens stops early, and one that sends all first does not find its connection
/// reset instead of the answer.
pub(crate) fn discard(mut body: Body) {
    let (mut left, time) = DISCARD;
    let reading = async move {
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, Bytes::len);
            left = left.saturating_sub(size);
            if left == 0 {
                break;
            }
        }
    };
    // One for each connection at most. Late or not, the answer is the same.
    tokio::spawn(timeout(time, reading));
}

fn too_large(limit: usize) -> Error {
    let message = format!("the body is larger than {limit} bytes, the limit of this route");
    Error::new(ErrorCode::RequestTooLarge, message).with("limit", limit)
}
