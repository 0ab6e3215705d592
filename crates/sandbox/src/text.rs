//! Bytes as answers carry them: text when they are UTF-8, else base64; never U+FFFD.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use types::Encoding;

/// Bytes as text or base64.
pub(crate) fn encode(bytes: Vec<u8>) -> (String, Option<Encoding>) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => (STANDARD.encode(error.as_bytes()), Some(Encoding::Base64)),
    }
}

/// Bytes as a person reads them: those that are not UTF-8 as `\xNN`.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Bytes of a base64 text.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// How many bytes at the end are the beginning of a character that is not whole yet: 0 to 3.
pub(crate) fn cut_tail(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3);
    for (i, byte) in bytes.iter().enumerate().skip(last).rev() {
        let length = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => return 0,
        };
        let have = bytes.len() - i;
        return if have < length { have } else { 0 };
    }
    0
}

/// Room for buffered output of the whole server, in units of [`UNIT`]: without one, a few
/// callers could fill the machine's memory.
pub(crate) type Room = Arc<Semaphore>;
const UNIT: usize = 64 * 1024;

/// Room for this many bytes.
pub(crate) fn room(bytes: usize) -> Room {
    Arc::new(Semaphore::new(bytes / UNIT))
}

/// The head of a stream: as much as the limit and the room take, the rest counted as cut off.
pub(crate) struct Head {
    bytes: Vec<u8>,
    truncated: bool,
    room: Room,
    /// What was taken of the room; given back when this goes.
    taken: Vec<OwnedSemaphorePermit>,
}

impl Head {
    /// An empty one that takes of this room.
    pub fn new(room: Room) -> Self {
        Self { bytes: Vec::new(), truncated: false, room, taken: Vec::new() }
    }

    /// Takes bytes while there is room. What follows the first byte left out is left out.
    pub fn push(&mut self, bytes: &[u8], limit: usize) {
        let mut free = limit - self.bytes.len().min(limit);
        if self.truncated {
            return;
        }
        let wanted = self.bytes.len() + bytes.len().min(free);
        // The first unit is free: small outputs never depend on others.
        while (self.taken.len() + 1) * UNIT < wanted {
            match self.room.clone().try_acquire_owned() {
                Ok(unit) => self.taken.push(unit),
                Err(_) => {
                    free = free.min((self.taken.len() + 1) * UNIT - self.bytes.len());
                    break;
                }
            }
        }
        self.truncated = bytes.len() > free;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(free)]);
    }

    /// Text or base64, and whether it is only the head; then cut at a character border. Last,
    /// what was taken of the room, to be kept for as long as the text is.
    pub fn finish(mut self) -> (String, Option<Encoding>, bool, Vec<OwnedSemaphorePermit>) {
        if self.truncated {
            let keep = self.bytes.len() - cut_tail(&self.bytes);
            if std::str::from_utf8(&self.bytes[..keep]).is_ok() {
                self.bytes.truncate(keep);
            }
        }
        let (text, encoding) = encode(std::mem::take(&mut self.bytes));
        (text, encoding, self.truncated, self.taken)
    }
}

/// A stream cut into pieces that are whole characters where they are text.
#[derive(Default)]
pub(crate) struct Pieces {
    tail: Vec<u8>,
}

impl Pieces {
    /// The next piece; `None`: too little for a whole character yet.
    pub fn push(&mut self, bytes: &[u8]) -> Option<(String, Option<Encoding>)> {
        let mut all = std::mem::take(&mut self.tail);
        all.extend_from_slice(bytes);
        let keep = all.len() - cut_tail(&all);
        self.tail = all.split_off(keep);
        (!all.is_empty()).then(|| encode(all))
    }

    /// What is left at the end.
    pub fn finish(&mut self) -> Option<(String, Option<Encoding>)> {
        (!self.tail.is_empty()).then(|| encode(std::mem::take(&mut self.tail)))
    }
}

#[cfg(test)]
mod tests;
