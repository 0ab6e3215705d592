//! What is kept of a value, in every language alike.
//!
//! A driver tells the head of a text that has more characters than [`TEXT_MAX`], and with it,
//! under [`CUT`], how many more there are: a number, `?` where it did not count, and nothing
//! where it is no text but JSON that it left out because it is too long.

use serde_json::Value;
use std::io::{self, Write};
use types::RichResult;

/// What is kept of a value's text and of an error's message, bytes.
pub(crate) const TEXT_MAX: usize = 1 << 20;
/// Longest JSON of a value, bytes, written without spaces.
const JSON_MAX: usize = 1 << 20;
/// What a driver calls the rest of a text; no form of a value has this name.
const CUT: &str = "cut";

/// Cuts a result, which came in `told` bytes. Whether something is missing of it.
pub(crate) fn result(result: &mut RichResult, told: usize) -> bool {
    let more = result.mime.remove(CUT);
    // What came in so few bytes has no part that is longer.
    if more.is_none() && told <= TEXT_MAX.min(JSON_MAX) {
        return false;
    }
    let mut cut = text(&mut result.text, more.as_deref());
    if result.json.as_ref().is_some_and(is_long) {
        result.json = None;
        cut = true;
    }
    cut
}

/// Cuts a text of which there are `more` characters, as a driver tells it. Whether something is missing.
pub(crate) fn text(text: &mut String, more: Option<&str>) -> bool {
    let end = text.floor_char_boundary(TEXT_MAX);
    let (beyond, was_cut) = (text[end..].chars().count() as u64, end < text.len());
    text.truncate(end);
    match more {
        Some("?") => text.push_str("… more characters"),
        more => match more.and_then(|more| more.parse::<u64>().ok()).unwrap_or(0) + beyond {
            0 => {}
            all => text.push_str(&format!("… {all} more characters")),
        },
    }
    was_cut || more.is_some()
}

fn is_long(value: &Value) -> bool {
    let mut room = Room(JSON_MAX);
    serde_json::to_writer(&mut room, value).is_err()
}

/// Takes so many bytes and keeps none.
struct Room(usize);

impl Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
