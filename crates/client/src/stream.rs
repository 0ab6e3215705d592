//! The events of a running command, and of running code, out of NDJSON.

use crate::lines::{Broken, Lines, Sequence, event};
use crate::{Error, Result};
use futures::Stream;
use types::{CodeEvent, ExecEvent};

/// The events of a running command. Dropping it before its end kills the command with its tree.
#[derive(Debug)]
pub struct ExecStream(Events);

impl ExecStream {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self(Events::new(response))
    }

    /// The next event, pings among them; `None` once `exit` or `error` was told. Cancel-safe.
    ///
    /// Errors: [`Error::Unknown`] where the stream breaks off before either, which says nothing
    /// of the command; [`Error::Protocol`] where a line is no event. Both are final.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>> {
        self.0.next().await.map_err(|broken| broken.into_error(Error::Unknown))
    }

    /// The same as a [`Stream`], which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<ExecEvent>> + Send {
        futures::stream::unfold(self, |mut stream| async move {
            let event = stream.next().await.transpose()?;
            Some((event, stream))
        })
    }
}

/// The events of running code. Dropping it before its end stops the code, and the context is as
/// it was before.
#[derive(Debug)]
pub struct CodeStream(Events);

impl CodeStream {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self(Events::new(response))
    }

    /// The next event, pings among them; `None` once `end`, or an `error` with a `failure`, was
    /// told. Cancel-safe.
    ///
    /// Errors: [`Error::UnknownCode`] where the stream breaks off before either, which says
    /// nothing of the execution; [`Error::Protocol`] where a line is no event. Both are final.
    pub async fn next(&mut self) -> Result<Option<CodeEvent>> {
        self.0.next().await.map_err(|broken| broken.into_error(Error::UnknownCode))
    }

    /// The same as a [`Stream`], which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<CodeEvent>> + Send {
        futures::stream::unfold(self, |mut stream| async move {
            let event = stream.next().await.transpose()?;
            Some((event, stream))
        })
    }
}

/// What both kinds of events have.
trait Event: serde::de::DeserializeOwned {
    fn seq(&self) -> u64;
    fn is_last(&self) -> bool;
}

impl Event for ExecEvent {
    fn seq(&self) -> u64 {
        let (ExecEvent::Start { seq, .. }
        | ExecEvent::Stdout { seq, .. }
        | ExecEvent::Stderr { seq, .. }
        | ExecEvent::Ping { seq }
        | ExecEvent::Exit { seq, .. }
        | ExecEvent::Error { seq, .. }) = self;
        *seq
    }
    fn is_last(&self) -> bool {
        matches!(self, ExecEvent::Exit { .. } | ExecEvent::Error { .. })
    }
}

impl Event for CodeEvent {
    fn seq(&self) -> u64 {
        let (CodeEvent::Stdout { seq, .. }
        | CodeEvent::Stderr { seq, .. }
        | CodeEvent::Result { seq, .. }
        | CodeEvent::Error { seq, .. }
        | CodeEvent::Ping { seq }
        | CodeEvent::End { seq, .. }) = self;
        *seq
    }
    fn is_last(&self) -> bool {
        matches!(self, CodeEvent::End { .. } | CodeEvent::Error { failure: Some(_), .. })
    }
}

#[derive(Debug)]
struct Events {
    lines: Lines,
    due: Sequence,
    ended: bool,
}

impl Events {
    fn new(response: reqwest::Response) -> Self {
        Self { lines: Lines::new(response), due: Sequence::default(), ended: false }
    }

    async fn next<T: Event>(&mut self) -> Result<Option<T>, Broken> {
        if self.ended {
            return Ok(None);
        }
        let event = self.read::<T>().await;
        self.ended = event.as_ref().map_or(true, Event::is_last);
        event.map(Some)
    }

    async fn read<T: Event>(&mut self) -> Result<T, Broken> {
        loop {
            let line = self.lines.next().await?;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let event: T = event(&line)?;
            self.due.take(event.seq())?;
            return Ok(event);
        }
    }
}
