//! What comes of an execution, for people: output and values on standard output, errors and
//! talk on standard error.

use super::save;
use crate::{fail, output};
use std::pin::Pin;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use types::{CodeError, CodeEvent, RichResult};

/// Shows one execution.
pub struct Shown<'a> {
    stdout: tokio::io::Stdout,
    stderr: tokio::io::Stderr,
    save: Option<&'a save::Directory>,
    results: usize,
    /// Standard output is in the middle of a line.
    within_line: bool,
}

impl<'a> Shown<'a> {
    pub fn new(save: Option<&'a save::Directory>) -> Self {
        Self {
            stdout: tokio::io::stdout(),
            stderr: tokio::io::stderr(),
            save,
            results: 0,
            within_line: false,
        }
    }

    /// Passes output on, byte by byte.
    pub async fn output(&mut self, event: &CodeEvent) -> anyhow::Result<()> {
        let bytes = client::code_event_bytes(event)?.unwrap_or_default();
        match event {
            CodeEvent::Stderr { .. } => write(&mut self.stderr, &bytes).await,
            _ => {
                self.within_line = bytes.last().map_or(self.within_line, |b| *b != b'\n');
                write(&mut self.stdout, &bytes).await
            }
        }
    }

    /// A result: its text, on a line of its own; its other forms as files, or by their names.
    pub async fn result(&mut self, result: &RichResult) -> anyhow::Result<()> {
        self.results += 1;
        if !result.text.is_empty() {
            let end = if std::mem::take(&mut self.within_line) { "\n" } else { "" };
            write(&mut self.stdout, format!("{end}{}\n", result.text).as_bytes()).await?;
        }
        let forms: Vec<&str> = save::forms(result).map(|(mime, _)| mime).collect();
        match self.save {
            Some(directory) => {
                for path in directory.keep(result)? {
                    output::say(format_args!("saved {}", output::plain(&path)));
                }
            }
            None if !forms.is_empty() => output::say(format_args!(
                "result {} is also {}; --save DIR keeps it",
                self.results,
                output::plain(&forms.join(", "))
            )),
            None => {}
        }
        Ok(())
    }

    /// The code's own error.
    pub fn error(&self, error: &CodeError) {
        if is_exit(error) && exit_status(error).is_some() {
            return;
        }
        for line in &error.traceback {
            output::say(output::plain(&line.replace('\t', "    ")));
        }
        let last = match error.message.is_empty() {
            true => error.name.clone(),
            false => format!("{}: {}", error.name, error.message),
        };
        // Most tracebacks begin or end with it.
        let told = error.traceback.iter().any(|line| line.trim() == last.trim());
        if !told {
            output::say(last.lines().map(output::plain).collect::<Vec<_>>().join("\n"));
        }
    }
}

async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> anyhow::Result<()> {
    let mut to = Pin::new(to);
    let written = async {
        to.write_all(bytes).await?;
        to.flush().await
    };
    match written.await {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Err(fail::BrokenPipe.into()),
        Err(e) => Err(anyhow::Error::new(e).context("cannot pass on what the code wrote")),
    }
}

/// How a wish to exit is named.
const EXIT: &str = "SystemExit";

/// Whether the code asked to exit.
pub fn is_exit(error: &CodeError) -> bool {
    error.name == EXIT
}

/// What a shell sees of an execution that failed.
pub fn exit_code(error: &CodeError) -> u8 {
    match error.name.as_str() {
        "ExecutionLimitError" if error.message.contains("longer than") => fail::TIMED_OUT,
        EXIT => exit_status(error).unwrap_or(1),
        _ => 1,
    }
}

/// The status that the code asked to exit with, as the language's own program would. Each says it
/// in its own words: `3`, `exit 3`, `process.exit(3)`. Other words are Python's last ones, which
/// are told, with status 1.
fn exit_status(error: &CodeError) -> Option<u8> {
    let words = error.message.trim();
    let status = ["the interpreter exited with status ", "process.exit(", "exit"]
        .iter()
        .find_map(|start| words.strip_prefix(start))
        .unwrap_or(words);
    match status.trim().trim_end_matches(')') {
        "" | "None" | "undefined" => Some(0),
        number => number.parse::<i64>().ok().map(|n| (n & 0xff) as u8),
    }
}

#[cfg(test)]
mod tests;
