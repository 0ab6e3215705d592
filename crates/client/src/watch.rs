//! What changes in a workspace, out of server-sent events.

use crate::lines::{Broken, Lines, event};
use crate::{Error, Result};
use futures::Stream;
use types::WatchEvent;

/// What changes below a path. Dropping it ends the watch.
#[derive(Debug)]
pub struct WatchStream {
    lines: Lines,
    /// The `data` of the event that is being read.
    data: Vec<u8>,
    ended: bool,
}

impl WatchStream {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self { lines: Lines::new(response), data: Vec::new(), ended: false }
    }

    /// The next event; `None` once `gone` was told. Cancel-safe.
    ///
    /// Errors: [`Error::Protocol`] where the stream breaks off before it, or where what comes is
    /// no event. Final: what changed since then is not known.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>> {
        if self.ended {
            return Ok(None);
        }
        let event = self.read().await;
        self.ended = matches!(event, Err(_) | Ok(WatchEvent::Gone));
        event.map(Some).map_err(|broken| {
            broken.into_error(|why| Error::Protocol(format!("the watch broke off: {why}")))
        })
    }

    /// The same as a [`Stream`], which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<WatchEvent>> + Send {
        futures::stream::unfold(self, |mut stream| async move {
            let event = stream.next().await.transpose()?;
            Some((event, stream))
        })
    }

    async fn read(&mut self) -> Result<WatchEvent, Broken> {
        loop {
            let line = self.lines.next().await?;
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() && !self.data.is_empty() {
                return event(&std::mem::take(&mut self.data));
            }
            // Names of events, their ids and comments say nothing that the data does not.
            if let Some(data) = line.strip_prefix(b"data:") {
                self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
                self.data.push(b'\n');
            }
        }
    }
}
