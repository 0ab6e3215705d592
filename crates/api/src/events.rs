//! What happened: pages of it, and the stream of what comes.

use crate::dispatch::Call;
use crate::{accept, auth, reply};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{HeaderMap, StatusCode};
use sandbox::{EventFilter, Followed};
use serde_json::json;
use std::io;
use std::time::Duration;
use types::{Error, Event, EventPage, EventType, Owner, Result, SandboxId};

/// A stream never rests for longer.
const PING: Duration = Duration::from_secs(10);

/// List events, or follow them
///
/// What happened to the owner's sandboxes, oldest first; kept 30 days. Each event was written in
/// the commit of the change that it tells of. Going on with `nextAfter` shows each one exactly
/// once; `missed` tells that some behind `after` are not kept any more. With
/// `Accept: text/event-stream` the answer goes on with what comes: `id` is the event's, the
/// event's name its type, and beside them there are `ready` (with where it begins), `missed` and
/// comments at least every 15 s. Without `after` and `Last-Event-ID` a stream begins now.
#[utoipa::path(get, path = "/v1/events", tag = "history", operation_id = "listEvents",
    params(
        ("after" = Option<i64>, Query, minimum = 0, description = "Only events with greater ids; absent: from the oldest that is kept."),
        ("sandbox" = Option<String>, Query, description = "Only of this sandbox, destroyed ones too."),
        ("type" = Option<String>, Query, description = "Only of this type, or of these: commas between them."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "At most so many; 100 by default. A stream takes none."),
        ("Last-Event-ID" = Option<i64>, Header, description = "Of a stream: where an earlier one broke off, over `after`."),
    ),
    responses((status = 200, description = "A page; or the stream of events.",
        content((EventPage = "application/json"), (serde_json::Value = "text/event-stream")))))]
pub(crate) async fn of_owner(call: Call, owner: Owner) -> Result<Response> {
    answer(call, Some(owner)).await
}

/// List events of all owners, or follow them
///
/// As `GET /v1/events`, for administrators: of everybody, or of the owner that `owner` names.
#[utoipa::path(get, path = "/v1/admin/events", tag = "server", operation_id = "listAllEvents",
    params(
        ("owner" = Option<String>, Query, description = "Only of this owner."),
        ("after" = Option<i64>, Query, minimum = 0, description = "Only events with greater ids; absent: from the oldest that is kept."),
        ("sandbox" = Option<String>, Query, description = "Only of this sandbox of `owner`."),
        ("type" = Option<String>, Query, description = "Only of this type, or of these: commas between them."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "At most so many; 100 by default. A stream takes none."),
        ("Last-Event-ID" = Option<i64>, Header, description = "Of a stream: where an earlier one broke off, over `after`."),
    ),
    responses((status = 200, description = "A page; or the stream of events.",
        content((EventPage = "application/json"), (serde_json::Value = "text/event-stream")))))]
pub(crate) async fn of_all(call: Call) -> Result<Response> {
    let named = call.query.get("owner").map(str::parse::<Owner>).transpose();
    let owner = named.map_err(|e| crate::path::refused("owner", &e))?;
    answer(call, owner).await
}

async fn answer(call: Call, owner: Option<Owner>) -> Result<Response> {
    let filter = filter(&call, owner)?;
    let mut after = call.query.get("after").map(|text| number("after", text)).transpose()?;
    let streamed = accept::first_of(&call.headers, &[accept::EVENTS]).is_some();
    if !streamed {
        let limit = call.query.number("limit", 1..=1000, 100)?;
        return reply::ok(&call.app.sandboxes.events(&filter, after, limit).await?);
    }
    if call.query.get("limit").is_some() {
        return Err(Error::invalid("limit", "limit says nothing of a stream"));
    }
    after = last_event_id(&call.headers)?.or(after);
    let followed = call.app.sandboxes.follow_events(filter, after);
    let kind = HeaderValue::from_static(accept::EVENTS);
    let by_token = auth::holds(&call.app, &call.headers).await.is_ok();
    Ok(reply::bytes(StatusCode::OK, kind, stream(call, followed, by_token)))
}

fn filter(call: &Call, owner: Option<Owner>) -> Result<EventFilter> {
    let sandbox = call.query.get("sandbox").map(str::parse::<SandboxId>).transpose();
    let sandbox = sandbox.map_err(|e| crate::path::refused("sandbox", &e))?;
    if sandbox.is_some() && owner.is_none() {
        let message = "sandbox goes with owner: names are an owner's own";
        return Err(Error::invalid("sandbox", message));
    }
    let mut types = Vec::new();
    if let Some(text) = call.query.get("type") {
        for word in text.split(',') {
            let kind = word.trim().parse::<EventType>().map_err(|e| Error::invalid("type", e))?;
            if !types.contains(&kind) {
                types.push(kind);
            }
        }
    }
    Ok(EventFilter { owner, sandbox, types })
}

fn number(name: &str, text: &str) -> Result<i64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| {
        Error::invalid(name, format!("{name} must be the id of an event, or 0")).with("min", 0)
    })
}

/// What a browser sends when it connects again; an empty one is none.
fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>> {
    let Some(value) = headers.get("last-event-id").filter(|v| !v.is_empty()) else {
        return Ok(None);
    };
    number("Last-Event-ID", value.to_str().unwrap_or("?")).map(Some)
}

enum Step {
    Begin,
    On,
    End,
}

fn stream(call: Call, followed: Followed, by_token: bool) -> Body {
    let state = (call, followed, Step::Begin);
    Body::from_stream(futures::stream::unfold(
        state,
        move |(call, mut followed, step)| async move {
            let (text, step) = match step {
                Step::End => return None,
                Step::Begin => {
                    let after = followed.after();
                    let data = json!({"after": after});
                    (format!("event: ready\nid: {after}\ndata: {data}\n\n"), Step::On)
                }
                Step::On => {
                    let next = tokio::select! {
                        next = tokio::time::timeout(PING, followed.next()) => next,
                        error = call.gone() => Ok(Err(error)),
                    };
                    // One that has expired, or was revoked just now, is told nothing more.
                    let next = match auth::holds(&call.app, &call.headers).await {
                        Err(error) if by_token => Ok(Err(error)),
                        _ => next,
                    };
                    match next {
                        Err(_) => (": ping\n\n".to_owned(), Step::On),
                        Ok(Ok(Some(page))) => (told(&page), Step::On),
                        Ok(Ok(None)) => return None,
                        Ok(Err(error)) => (failed(&call, &error), Step::End),
                    }
                }
            };
            Some((Ok::<_, io::Error>(Bytes::from(text)), (call, followed, step)))
        },
    ))
}

fn told(page: &EventPage) -> String {
    let mut text = String::new();
    if page.missed {
        let next = page.events.first().map_or(page.next_after, |event| event.id - 1);
        text = format!("event: missed\ndata: {}\n\n", json!({"after": next}));
    }
    for event in &page.events {
        text.push_str(&one(event));
    }
    text
}

fn one(event: &Event) -> String {
    // JSON has no line end inside, and the types are our own words.
    let data = serde_json::to_string(event).unwrap_or_default();
    format!("id: {}\nevent: {}\ndata: {data}\n\n", event.id, event.kind)
}

fn failed(call: &Call, error: &Error) -> String {
    let body = reply::shown_body(&call.app.private, &call.id, error.body(reply::now_ms()));
    format!("event: error\ndata: {}\n\n", serde_json::to_string(&body).unwrap_or_default())
}
