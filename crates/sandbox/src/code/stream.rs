//! The end of an execution: whole, or event by event.

use super::answer::{Collected, Entries};
use super::execute::{CodeRun, Ended};
use crate::{Sandboxes, errors};
use interpreters::Event;
use std::collections::VecDeque;
use std::time::Duration;
use tracing::Instrument as _;
use types::{
    BindingInfo, CodeEvent, CodeRequest, CodeResult, Error, LogEntry, Result, SandboxName, Stream,
};

/// A stream never rests for longer.
const PING: Duration = Duration::from_secs(10);

impl Sandboxes {
    /// Runs code to its end, in the context that the request names or in the default one of its
    /// binding or language. Errors of the code are results. Dropping the future stops the code.
    pub async fn execute(&self, name: &SandboxName, request: CodeRequest) -> Result<CodeResult> {
        let run = async { self.begin_code(name, request).await?.collect().await };
        run.instrument(span()).await
    }

    /// The same, event by event. An error here means that nothing ran.
    pub async fn execute_stream(
        &self,
        name: &SandboxName,
        request: CodeRequest,
    ) -> Result<CodeStream> {
        let span = span();
        let run = self.begin_code(name, request).instrument(span.clone()).await?;
        Ok(self.stream(run, span))
    }

    /// Runs code in an interpreter that is thrown away, of no sandbox.
    pub async fn execute_stateless(&self, request: CodeRequest) -> Result<CodeResult> {
        let run = async { self.begin_stateless(request).await?.collect().await };
        run.instrument(span()).await
    }

    /// The same, event by event. An error here means that nothing ran.
    pub async fn execute_stateless_stream(&self, request: CodeRequest) -> Result<CodeStream> {
        let span = span();
        let run = self.begin_stateless(request).instrument(span.clone()).await?;
        Ok(self.stream(run, span))
    }

    /// The bindings of this server, in order.
    pub fn bindings(&self) -> Vec<BindingInfo> {
        self.world.code.bindings()
    }

    fn stream(&self, run: CodeRun, span: tracing::Span) -> CodeStream {
        CodeStream {
            run: Some(run),
            _span: span,
            entries: Entries::default(),
            queue: VecDeque::new(),
            seq: 0,
            clock: self.world.clock.clone(),
        }
    }
}

/// Of an execution, for a collector.
fn span() -> tracing::Span {
    tracing::info_span!(target: "trace", "execution")
}

fn lost<E>(_: E) -> Result<Ended> {
    Err(errors::internal("running code", "no answer"))
}

impl CodeRun {
    /// All of it, to the end.
    async fn collect(mut self) -> Result<CodeResult> {
        let mut output = Collected::default();
        let mut results = Vec::new();
        while let Some(event) = self.events.recv().await {
            match event {
                Event::Output { stream, bytes, at } => output.push(stream, &bytes, at),
                Event::Result(result) => results.push(result),
            }
        }
        let Ended { mut result, value, truncated } = self.end.await.unwrap_or_else(lost)?;
        result.logs = output.finish(truncated);
        results.extend(value);
        result.results = results;
        Ok(result)
    }
}

/// The events of an execution. Dropping it before its end stops the code.
pub struct CodeStream {
    run: Option<CodeRun>,
    /// Ends with this.
    _span: tracing::Span,
    entries: Entries,
    queue: VecDeque<CodeEvent>,
    seq: u64,
    clock: objects::Clock,
}

impl CodeStream {
    fn count(&mut self) -> u64 {
        self.seq += 1;
        self.seq - 1
    }

    /// The next event; `None` after `end`, or after an `error` of the server. Pings are among
    /// them. Cancel-safe.
    pub async fn next(&mut self) -> Option<CodeEvent> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            let run = self.run.as_mut()?;
            match tokio::time::timeout(PING, step(run)).await {
                Err(_) => return Some(CodeEvent::Ping { seq: self.count() }),
                Ok(Step::Event(Event::Output { stream, bytes, at })) => {
                    let entry = self.entries.push(stream, &bytes, at);
                    entry.into_iter().for_each(|entry| self.entry(entry));
                }
                Ok(Step::Event(Event::Result(result))) => {
                    let seq = self.count();
                    self.queue.push_back(CodeEvent::Result { seq, result });
                }
                Ok(Step::End(ended)) => {
                    self.run = None;
                    for entry in self.entries.finish() {
                        self.entry(entry);
                    }
                    match *ended {
                        Ok(ended) => self.end(ended),
                        Err(error) => self.fail(&error),
                    }
                }
            }
        }
    }

    fn entry(&mut self, entry: LogEntry) {
        let seq = self.count();
        let LogEntry { stream, text, at, encoding } = entry;
        self.queue.push_back(match stream {
            Stream::Stdout => CodeEvent::Stdout { seq, text, at, encoding },
            Stream::Stderr => CodeEvent::Stderr { seq, text, at, encoding },
        });
    }

    fn end(&mut self, ended: Ended) {
        let Ended { mut result, value, truncated } = ended;
        result.logs.truncated = truncated;
        if let Some(value) = value {
            let seq = self.count();
            self.queue.push_back(CodeEvent::Result { seq, result: value });
        }
        if let Some(error) = result.error.clone() {
            let seq = self.count();
            self.queue.push_back(CodeEvent::Error { seq, error: Some(error), failure: None });
        }
        let seq = self.count();
        self.queue.push_back(CodeEvent::End { seq, result: Box::new(result) });
    }

    /// Stops the code where it still runs; the last event, which tells why.
    pub fn break_off(&mut self, error: &Error) -> CodeEvent {
        self.run = None;
        self.queue.clear();
        self.failure(error)
    }

    fn fail(&mut self, error: &Error) {
        let failure = self.failure(error);
        self.queue.push_back(failure);
    }

    fn failure(&mut self, error: &Error) -> CodeEvent {
        let failure = Some(error.body(self.clock.now_ms()));
        CodeEvent::Error { seq: self.count(), error: None, failure }
    }
}

enum Step {
    Event(Event),
    End(Box<Result<Ended>>),
}

/// The next thing that an execution tells. Cancel-safe.
async fn step(run: &mut CodeRun) -> Step {
    match run.events.recv().await {
        Some(event) => Step::Event(event),
        None => Step::End(Box::new((&mut run.end).await.unwrap_or_else(lost))),
    }
}
