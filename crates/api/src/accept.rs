//! Which form of an answer a caller asks for.

use hyper::HeaderMap;
use hyper::header::ACCEPT;

/// JSON objects, one a line.
pub(crate) const LINES: &str = "application/x-ndjson";
/// Server-sent events.
pub(crate) const EVENTS: &str = "text/event-stream";

/// One plain answer.
const JSON: &str = "application/json";

/// The one of `kinds` that the caller wants most, of equals the one named first; `None`: it names
/// none of them, or would rather have plain JSON.
pub(crate) fn first_of(headers: &HeaderMap, kinds: &[&'static str]) -> Option<&'static str> {
    let values = headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok());
    let mut best: Option<(&'static str, f32)> = None;
    for range in values.flat_map(|v| v.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let ours = kinds.iter().chain([&JSON]).find(|kind| name.eq_ignore_ascii_case(kind));
        let weight = parts.find_map(|p| p.strip_prefix("q=")).and_then(|q| q.parse().ok());
        let weight: f32 = weight.unwrap_or(1.0);
        // A weight of nought refuses.
        if let Some(kind) = ours
            && weight > best.map_or(0.0, |(_, weight)| weight)
        {
            best = Some((kind, weight));
        }
    }
    best.map(|(kind, _)| kind).filter(|kind| *kind != JSON)
}
