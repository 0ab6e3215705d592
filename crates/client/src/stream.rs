//! The events of a running command, out of NDJSON.

use crate::error::innermost;
use crate::{Error, Result};
use bytes::BytesMut;
use futures::Stream;
use std::time::Duration;
use types::ExecEvent;

/// A line longer than this is no event: the server cuts output into far smaller ones.
const MAX_LINE: usize = 64 << 20;
/// A living stream says at least `ping` every 15 s. A server that is stopped for a while may
/// come back, so the patience is many times that.
const SILENCE: Duration = Duration::from_secs(300);

/// The events of a running command. Dropping it before its end kills the command with its tree.
#[derive(Debug)]
pub struct ExecStream {
    response: reqwest::Response,
    buffer: BytesMut,
    /// Bytes of `buffer` that were searched for the end of the line.
    searched: usize,
    next_seq: u64,
    ended: bool,
}

impl ExecStream {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self { response, buffer: BytesMut::new(), searched: 0, next_seq: 0, ended: false }
    }

    /// The next event, pings among them; `None` once `exit` or `error` was told. Cancel-safe.
    ///
    /// Errors: [`Error::Unknown`] where the stream breaks off before either, which says nothing
    /// of the command; [`Error::Protocol`] where a line is no event. Both are final.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>> {
        if self.ended {
            return Ok(None);
        }
        let event = self.read().await;
        self.ended = matches!(event, Err(_) | Ok(ExecEvent::Exit { .. } | ExecEvent::Error { .. }));
        event.map(Some)
    }

    /// The same as a [`Stream`], which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<ExecEvent>> + Send {
        futures::stream::unfold(self, |mut stream| async move {
            let event = stream.next().await.transpose()?;
            Some((event, stream))
        })
    }

    async fn read(&mut self) -> Result<ExecEvent> {
        loop {
            if let Some(line) = self.line()? {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return self.event(&line);
            }
            let chunk = self.response.chunk();
            let chunk = tokio::time::timeout(SILENCE, chunk).await.map_err(|_| {
                Error::Unknown(format!("the server was silent for {} s", SILENCE.as_secs()))
            })?;
            match chunk {
                Ok(Some(bytes)) => self.buffer.extend_from_slice(&bytes),
                Ok(None) => {
                    return Err(Error::Unknown("the stream ended before it".to_owned()));
                }
                Err(e) => {
                    return Err(Error::Unknown(format!("the connection broke: {}", innermost(&e))));
                }
            }
        }
    }

    /// A whole line without its end, once there is one.
    fn line(&mut self) -> Result<Option<BytesMut>> {
        match self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
            Some(at) => {
                let line = self.buffer.split_to(self.searched + at + 1);
                self.searched = 0;
                Ok(Some(line))
            }
            None if self.buffer.len() > MAX_LINE => {
                Err(Error::Protocol("the server sent a line without end".to_owned()))
            }
            None => {
                self.searched = self.buffer.len();
                Ok(None)
            }
        }
    }

    fn event(&mut self, line: &[u8]) -> Result<ExecEvent> {
        let event: ExecEvent = serde_json::from_slice(line)
            .map_err(|e| Error::Protocol(format!("the server sent no event: {e}")))?;
        let (ExecEvent::Start { seq, .. }
        | ExecEvent::Stdout { seq, .. }
        | ExecEvent::Stderr { seq, .. }
        | ExecEvent::Ping { seq }
        | ExecEvent::Exit { seq, .. }
        | ExecEvent::Error { seq, .. }) = event;
        if seq != self.next_seq {
            let text = format!("event {seq} came where {} was due", self.next_seq);
            return Err(Error::Protocol(text));
        }
        self.next_seq += 1;
        Ok(event)
    }
}
