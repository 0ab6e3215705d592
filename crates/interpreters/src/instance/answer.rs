//! What a driver answers.

use crate::Stop;
use crate::bounds;
use serde::Deserialize;
use types::{CodeError, RichResult};

/// Longest answer that is read whole, bytes. Of a longer one the value's text is kept, cut.
const ANSWER_MAX: usize = 16 << 20;
/// What is kept of a traceback then, lines.
const LINES_MAX: usize = 1000;

/// What a driver answers.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub cwd: String,
    pub result: Option<RichResult>,
    pub error: Option<CodeError>,
    /// The driver can run nothing more.
    pub broken: bool,
    /// Not all of the result or of the error's message is here.
    pub cut: bool,
}

/// As it comes.
#[derive(Deserialize)]
struct Told<R> {
    cwd: String,
    result: Option<R>,
    error: Option<ToldError>,
    #[serde(default)]
    broken: bool,
}

#[derive(Deserialize)]
struct ToldError {
    #[serde(flatten)]
    error: CodeError,
    /// As `bounds::CUT`.
    cut: Option<String>,
}

/// A result without what can be too deep or too long.
#[derive(Deserialize)]
struct LeanResult {
    text: String,
    cut: Option<String>,
}

impl ToldError {
    /// The error; whether its message was cut.
    fn bounded(mut self) -> (CodeError, bool) {
        let cut = bounds::text(&mut self.error.message, self.cut.as_deref());
        (self.error, cut)
    }
}

impl Answer {
    /// Reads an answer. A value that is nested more deeply than a reader of JSON can be asked to
    /// follow has its text alone; so has one that is too long, and its text is cut.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Stop> {
        let wrong =
            |e: serde_json::Error| Stop::Driver(format!("its answer is not understood: {e}"));
        if bytes.len() <= ANSWER_MAX
            && let Ok(Told { cwd, mut result, error, broken }) = serde_json::from_slice(bytes)
        {
            let cut = result.as_mut().is_some_and(|result| bounds::result(result, bytes.len()));
            let (error, long) = error.map(ToldError::bounded).unzip();
            return Ok(Answer { cwd, result, error, broken, cut: cut || long == Some(true) });
        }
        let Told { cwd, result, error, broken } = serde_json::from_slice(bytes).map_err(wrong)?;
        let mut cut = bytes.len() > ANSWER_MAX;
        let result = result.map(|LeanResult { mut text, cut: more }| {
            cut |= bounds::text(&mut text, more.as_deref());
            RichResult { text, ..RichResult::default() }
        });
        let error = error.map(|error| {
            let (mut error, long) = error.bounded();
            cut |= long;
            error.traceback.truncate(LINES_MAX);
            error
        });
        Ok(Answer { cwd, result, error, broken, cut })
    }
}

#[cfg(test)]
use crate::bounds::TEXT_MAX;
#[cfg(test)]
mod tests;
