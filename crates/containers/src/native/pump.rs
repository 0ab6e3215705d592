//! The output of one command, from its pipes to the caller.

use crate::{CommandEnd, CommandEvent, CommandOutcome};
use std::io;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How long after a command's end its background children may still be heard.
const LINGER: Duration = Duration::from_millis(200);
/// Bytes of one event.
const CHUNK: usize = 64 * 1024;

/// One stream: its pipe, and how many bytes must still come of it.
struct Stream {
    pipe: Option<Receiver>,
    owed: usize,
}

impl Stream {
    async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let Some(pipe) = &mut self.pipe else { return std::future::pending().await };
        buffer.clear();
        pipe.read_buf(buffer).await
    }

    /// Notes what is in the pipe now: all that the command itself can have written.
    fn settle(&mut self) {
        let waiting = self.pipe.as_ref().map(rustix::io::ioctl_fionread);
        self.owed = match waiting {
            Some(Ok(n)) => usize::try_from(n).unwrap_or(0),
            _ => 0,
        };
    }

    fn took(&mut self, read: &io::Result<usize>) {
        match read {
            Ok(n) if *n > 0 => self.owed = self.owed.saturating_sub(*n),
            _ => *self = Self { pipe: None, owed: 0 },
        }
    }
}

/// Tells all that a command writes, then its end. Ends early when nobody listens.
pub(super) async fn pump(
    stdout: Receiver,
    stderr: Option<Receiver>,
    mut ended: watch::Receiver<Option<CommandEnd>>,
    tell: mpsc::Sender<CommandEvent>,
) {
    let mut out = Stream { pipe: Some(stdout), owed: 0 };
    let mut err = Stream { pipe: stderr, owed: 0 };
    let (mut out_buffer, mut err_buffer) = (Vec::with_capacity(CHUNK), Vec::with_capacity(CHUNK));
    let mut end: Option<(CommandEnd, Instant)> = None;
    loop {
        if let Some((end, deadline)) = &end {
            let closed = out.pipe.is_none() && err.pipe.is_none();
            let late = *deadline <= Instant::now() && out.owed == 0 && err.owed == 0;
            if closed || late {
                let _ = tell.send(CommandEvent::End(end.clone())).await;
                return;
            }
        }
        let deadline = end.as_ref().map(|(_, deadline)| *deadline);
        tokio::select! {
            read = out.read(&mut out_buffer) => {
                out.took(&read);
                if read.is_ok_and(|n| n > 0) {
                    let event = CommandEvent::Stdout(out_buffer.as_slice().to_vec());
                    if tell.send(event).await.is_err() {
                        return;
                    }
                }
            }
            read = err.read(&mut err_buffer) => {
                err.took(&read);
                if read.is_ok_and(|n| n > 0) {
                    let event = CommandEvent::Stderr(err_buffer.as_slice().to_vec());
                    if tell.send(event).await.is_err() {
                        return;
                    }
                }
            }
            () = tell.closed() => return,
            seen = seen(&mut ended), if end.is_none() => {
                // A closed watch: the command was forgotten before its end was told.
                let unknown = CommandEnd {
                    outcome: CommandOutcome::Unknown,
                    at_ms: crate::fail::now_ms(),
                };
                out.settle();
                err.settle();
                end = Some((seen.unwrap_or(unknown), Instant::now() + LINGER));
            }
            () = until(deadline), if deadline.is_some_and(|d| d > Instant::now()) => {}
        }
    }
}

async fn seen(ended: &mut watch::Receiver<Option<CommandEnd>>) -> Option<CommandEnd> {
    ended.wait_for(Option::is_some).await.ok()?.clone()
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
