//! Lines of an answer that comes bit by bit.

use crate::Error;
use crate::error::innermost;
use bytes::BytesMut;
use std::time::Duration;

/// A line longer than this is no event: the server cuts output into far smaller ones.
const MAX_LINE: usize = 64 << 20;
/// A living stream says something at least every 15 s. A server that is stopped for a while may
/// come back, so the patience is many times that.
const SILENCE: Duration = Duration::from_secs(300);

/// Why no further line came.
pub(crate) enum Broken {
    /// The stream broke off; the text says how.
    Off(String),
    /// What came is no line.
    Wrong(String),
}

impl Broken {
    /// As an error; `off` makes that of a stream that broke off.
    pub(crate) fn into_error(self, off: fn(String) -> Error) -> Error {
        match self {
            Broken::Off(why) => off(why),
            Broken::Wrong(why) => Error::Protocol(why),
        }
    }
}

/// The lines of an answer.
#[derive(Debug)]
pub(crate) struct Lines {
    response: reqwest::Response,
    buffer: BytesMut,
    /// Bytes of `buffer` that were searched for the end of the line.
    searched: usize,
}

impl Lines {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self { response, buffer: BytesMut::new(), searched: 0 }
    }

    /// The next line with its end; an end of the answer is an error, also after a whole line.
    /// Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<BytesMut, Broken> {
        loop {
            if let Some(line) = self.line()? {
                return Ok(line);
            }
            let chunk = self.response.chunk();
            let chunk = tokio::time::timeout(SILENCE, chunk).await.map_err(|_| {
                Broken::Off(format!("the server was silent for {} s", SILENCE.as_secs()))
            })?;
            match chunk {
                Ok(Some(bytes)) => self.buffer.extend_from_slice(&bytes),
                Ok(None) => return Err(Broken::Off("the stream ended before it".to_owned())),
                Err(e) => {
                    return Err(Broken::Off(format!("the connection broke: {}", innermost(&e))));
                }
            }
        }
    }

    fn line(&mut self) -> Result<Option<BytesMut>, Broken> {
        match self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
            Some(at) => {
                let line = self.buffer.split_to(self.searched + at + 1);
                self.searched = 0;
                Ok(Some(line))
            }
            None if self.buffer.len() > MAX_LINE => {
                Err(Broken::Wrong("the server sent a line without end".to_owned()))
            }
            None => {
                self.searched = self.buffer.len();
                Ok(None)
            }
        }
    }
}

/// Reads an event out of a line.
pub(crate) fn event<T: serde::de::DeserializeOwned>(line: &[u8]) -> Result<T, Broken> {
    serde_json::from_slice(line)
        .map_err(|e| Broken::Wrong(format!("the server sent no event: {e}")))
}

/// Counts events, so that a missing one is seen.
#[derive(Debug, Default)]
pub(crate) struct Sequence(u64);

impl Sequence {
    pub(crate) fn take(&mut self, seq: u64) -> Result<(), Broken> {
        if seq != self.0 {
            return Err(Broken::Wrong(format!("event {seq} came where {} was due", self.0)));
        }
        self.0 += 1;
        Ok(())
    }
}
