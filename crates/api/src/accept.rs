//! Which form of an answer a caller asks for.

use hyper::HeaderMap;
use hyper::header::ACCEPT;

/// JSON objects, one a line.
pub(crate) const LINES: &str = "application/x-ndjson";
/// Server-sent events.
pub(crate) const EVENTS: &str = "text/event-stream";

/// The first of `kinds` that the caller lists; `None`: none of them.
pub(crate) fn first_of(headers: &HeaderMap, kinds: &[&'static str]) -> Option<&'static str> {
    let values = headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).find_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default();
        let ours = kinds.iter().find(|kind| range.eq_ignore_ascii_case(kind))?;
        // A weight of nought refuses.
        let refused = parts.filter_map(|p| p.strip_prefix("q=")).any(|q| q.parse() == Ok(0.0));
        (!refused).then_some(*ours)
    })
}
