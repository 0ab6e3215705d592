//! What a driver answers.

use crate::Stop;
use serde::Deserialize;
use types::{CodeError, RichResult};

/// Longest answer that is read whole, bytes. Of a longer one the value's text is kept, cut.
const ANSWER_MAX: usize = 16 << 20;
/// What is kept of that text, bytes.
const TEXT_MAX: usize = 1 << 20;
/// What is kept of a traceback then, lines.
const LINES_MAX: usize = 1000;

/// What a driver answers.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Answer {
    pub cwd: String,
    pub result: Option<RichResult>,
    pub error: Option<CodeError>,
    /// The driver can run nothing more.
    #[serde(default)]
    pub broken: bool,
    /// Not all of the result is here.
    #[serde(skip)]
    pub cut: bool,
}

/// The same without what can be too deep or too long.
#[derive(Deserialize)]
struct Lean {
    cwd: String,
    result: Option<LeanResult>,
    error: Option<CodeError>,
    #[serde(default)]
    broken: bool,
}

#[derive(Deserialize)]
struct LeanResult {
    text: String,
}

impl Answer {
    /// Reads an answer. A value that is nested more deeply than a reader of JSON can be asked to
    /// follow has its text alone; so has one that is too long, and its text is cut.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Stop> {
        let wrong =
            |e: serde_json::Error| Stop::Driver(format!("its answer is not understood: {e}"));
        if bytes.len() <= ANSWER_MAX
            && let Ok(answer) = serde_json::from_slice(bytes)
        {
            return Ok(answer);
        }
        let lean: Lean = serde_json::from_slice(bytes).map_err(wrong)?;
        let mut cut = bytes.len() > ANSWER_MAX;
        let result = lean.result.map(|LeanResult { mut text }| {
            if text.len() > TEXT_MAX {
                text.truncate(text.floor_char_boundary(TEXT_MAX));
                cut = true;
            }
            RichResult { text, ..RichResult::default() }
        });
        let error = lean.error.map(|mut error| {
            error.message.truncate(error.message.floor_char_boundary(TEXT_MAX));
            error.traceback.truncate(LINES_MAX);
            error
        });
        Ok(Answer { cwd: lean.cwd, result, error, broken: lean.broken, cut })
    }
}

#[cfg(test)]
mod tests;
