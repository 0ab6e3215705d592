//! What a guest writes to its standard streams, and what it displays.
//!
//! Output never fails the guest: what is over the limit is counted and dropped. Small writes that
//! follow each other closely go on as one piece, and no piece ends inside a UTF-8 character
//! unless the guest's output does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::{RichResult, Stream};

/// Writes of one stream within this time are one piece, ms.
const MERGE_MS: i64 = 20;
/// A piece is handed on when it has this many bytes.
const PIECE_MAX: usize = 32 << 10;
/// Most displayed results of one execution.
const DISPLAY_MAX: usize = 1000;
/// Most bytes of all displayed results of one execution.
const DISPLAY_BYTES: usize = 16 << 20;

/// Where output goes while a guest runs. Called from the guest's thread: it must not block.
pub trait Sink: Send {
    /// A piece of output, written at this time (ms since the epoch).
    fn output(&mut self, stream: Stream, bytes: Vec<u8>, at: i64);
    /// A displayed result.
    fn result(&mut self, result: RichResult);
}

/// What an execution wrote, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// All that was written, kept or not, bytes.
    pub bytes: u64,
    /// Something was dropped.
    pub truncated: bool,
}

/// The output of one guest. Clones are the same one.
#[derive(Clone, Default)]
pub struct Output(Arc<Mutex<Capture>>);

impl Output {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Capture> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on output goes to this sink, at most `max` bytes of it.
    pub fn begin(&self, sink: Box<dyn Sink>, max: usize) {
        *self.lock() = Capture { sink: Some(sink), max, ..Capture::default() };
    }

    /// Hands on what has waited long enough.
    pub fn flush_due(&self, now: i64) {
        let mut capture = self.lock();
        if capture.pending.as_ref().is_some_and(|p| now - p.at >= MERGE_MS) {
            capture.flush();
        }
    }

    /// Hands on all the rest and lets go of the sink.
    pub fn end(&self) -> Totals {
        let mut capture = self.lock();
        capture.finish();
        let totals = capture.totals;
        *capture = Capture::default();
        totals
    }
}

#[derive(Default)]
pub(crate) struct Capture {
    sink: Option<Box<dyn Sink>>,
    max: usize,
    kept: usize,
    totals: Totals,
    pending: Option<Piece>,
    /// The beginning of a character, by stream, and when it was written.
    tails: [Vec<u8>; 2],
    displayed: usize,
    displayed_bytes: usize,
}

/// A result without all that can be too deep.
#[derive(serde::Deserialize)]
struct Text {
    text: String,
}

struct Piece {
    stream: Stream,
    bytes: Vec<u8>,
    at: i64,
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

/// How many bytes at the end are the beginning of a character that goes on.
fn unfinished(bytes: &[u8]) -> usize {
    for (back, byte) in bytes.iter().rev().take(3).enumerate() {
        let need = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return 0,
        };
        return if need > back + 1 { back + 1 } else { 0 };
    }
    0
}

impl Capture {
    /// Takes what the guest wrote at `now`, ms since the epoch.
    pub(crate) fn write(&mut self, stream: Stream, bytes: &[u8], now: i64) {
        self.totals.bytes += bytes.len() as u64;
        let take = bytes.len().min(self.max - self.kept);
        if take < bytes.len() {
            self.totals.truncated = true;
        }
        if take == 0 || self.sink.is_none() {
            return;
        }
        self.kept += take;
        let joins = self.pending.as_ref().is_some_and(|p| {
            p.stream == stream && now - p.at < MERGE_MS && p.bytes.len() < PIECE_MAX
        });
        if !joins {
            self.flush();
        }
        let piece =
            self.pending.get_or_insert_with(|| Piece { stream, bytes: Vec::new(), at: now });
        piece.bytes.extend_from_slice(&bytes[..take]);
        if take < bytes.len() {
            // What follows is dropped: the character that the limit cut goes with it.
            self.flush();
            self.tails[index(stream)].clear();
            self.max = self.kept;
        }
    }

    fn flush(&mut self) {
        let Some(piece) = self.pending.take() else { return };
        let tail = &mut self.tails[index(piece.stream)];
        let mut bytes = std::mem::take(tail);
        bytes.extend_from_slice(&piece.bytes);
        *tail = bytes.split_off(bytes.len() - unfinished(&bytes));
        if let (false, Some(sink)) = (bytes.is_empty(), &mut self.sink) {
            sink.output(piece.stream, bytes, piece.at);
        }
    }

    /// Hands on everything, also a character that never ended.
    fn finish(&mut self) {
        self.flush();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let tail = std::mem::take(&mut self.tails[index(stream)]);
            if let (false, Some(sink)) = (tail.is_empty(), &mut self.sink) {
                sink.output(stream, tail, super::clocks::epoch_ms());
            }
        }
    }

    pub(crate) fn display(&mut self, json: &[u8]) -> bool {
        let full = self.displayed == DISPLAY_MAX
            || self.displayed_bytes.saturating_add(json.len()) > DISPLAY_BYTES;
        if full {
            self.totals.truncated = true;
            self.totals.bytes += json.len() as u64;
            return false;
        }
        // A value that is nested too deeply for readers of JSON has its text.
        let lean = || {
            serde_json::from_slice(json)
                .map(|Text { text }| RichResult { text, ..RichResult::default() })
        };
        let told = serde_json::from_slice(json).or_else(|_| lean());
        let Ok(mut result) = told else { return false };
        self.totals.truncated |= crate::bounds::result(&mut result, json.len());
        self.displayed += 1;
        self.displayed_bytes += json.len();
        self.flush();
        if let Some(sink) = &mut self.sink {
            sink.result(result);
        }
        true
    }
}

#[cfg(test)]
mod tests;
