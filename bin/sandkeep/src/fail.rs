//! Errors, as they are told to people, and the exit codes that go with them.

use std::io::{IsTerminal as _, Write as _};
use types::ErrorCode;

/// Exit code of our own errors, usage errors among them.
pub const OURS: u8 = 125;
/// Exit code when a command's time limit ended it.
pub const TIMED_OUT: u8 = 124;
/// Exit code when a command's program cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// Exit code when a command's program is not there.
pub const NOT_FOUND: u8 = 127;
/// Exit code when nobody reads standard output any more, as a shell sees SIGPIPE.
pub const BROKEN_PIPE: u8 = 141;

/// An error with advice.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hints: Vec<String>,
}

impl Failure {
    /// An error that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new() }
    }
    /// Adds advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Failure {}

/// Nobody reads our standard output any more: not an error that anybody could be told.
#[derive(Debug)]
pub struct BrokenPipe;

impl std::fmt::Display for BrokenPipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("standard output is closed")
    }
}
impl std::error::Error for BrokenPipe {}

/// Prints the error on standard error; the exit code that goes with it.
pub fn report(error: &anyhow::Error) -> u8 {
    if error.is::<BrokenPipe>() {
        return BROKEN_PIPE;
    }
    let mut message = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        // Many say themselves what caused them.
        if !message.ends_with(&text) {
            message += if message.is_empty() { "" } else { ": " };
            message += &text;
        }
    }
    let lines: Vec<_> = message.trim_end().lines().map(crate::output::plain).collect();
    let mut text = format!("{} {}\n", label("error:"), lines.join("\n"));
    for hint in hints(error) {
        text += &format!("hint: {}\n", crate::output::plain(&hint));
    }
    // Where this fails too, nobody listens.
    let _ = std::io::stderr().write_all(text.as_bytes());
    code(error)
}

/// The label in colour where somebody sees it; the word alone carries the meaning.
fn label(word: &str) -> String {
    let quiet = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    if quiet || !std::io::stderr().is_terminal() {
        return word.to_owned();
    }
    format!("\x1b[1;31m{word}\x1b[0m")
}

fn code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<client::Error>().and_then(client::Error::code) {
        Some(ErrorCode::CommandNotFound) => NOT_FOUND,
        Some(ErrorCode::CommandNotExecutable) => NOT_EXECUTABLE,
        _ => OURS,
    }
}

fn hints(error: &anyhow::Error) -> Vec<String> {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.hints.clone();
    }
    match error.downcast_ref::<client::Error>() {
        Some(error @ client::Error::Connect { .. })
            if format!("{error:#} {error:?}").contains("CaUsedAsEndEntity") =>
        {
            vec![
                "the server's certificate is one of an authority (CA:TRUE): give the server one of \
                 its own, as `openssl req -x509 -addext basicConstraints=critical,CA:FALSE` makes it"
                    .to_owned(),
            ]
        }
        Some(client::Error::Connect { .. }) => {
            vec!["start the server with `sandkeep serve`, or say where it is with --url".to_owned()]
        }
        Some(client::Error::Unknown(_)) => {
            vec!["`sandkeep executions NAME` tells what became of it".to_owned()]
        }
        Some(client::Error::UnknownCode(_)) => {
            vec!["`sandkeep contexts ls NAME` tells how many executions were saved".to_owned()]
        }
        Some(client::Error::Api(error)) => advice(error),
        _ => Vec::new(),
    }
}

fn advice(error: &types::Error) -> Vec<String> {
    let text = |key: &str| error.context.get(key).map(|v| v.as_str().unwrap_or("").to_owned());
    let hint = match error.code {
        ErrorCode::InstanceStopped => {
            let reason = text("reason").unwrap_or_else(|| "unknown".to_owned());
            format!("the reason was {reason:?}; the command may have run")
        }
        ErrorCode::SettingsConflict => {
            "leave the settings out, or remove the sandbox with `sandkeep rm`".to_owned()
        }
        ErrorCode::ImageNotFound => {
            "`sandkeep image ls` lists the images, `sandkeep image import` adds one".to_owned()
        }
        ErrorCode::Unauthenticated => "put a token into SANDKEEP_TOKEN".to_owned(),
        ErrorCode::SandboxNotFound => {
            "`sandkeep ls` lists the sandboxes; --owner says whose".to_owned()
        }
        ErrorCode::TokenNotFound => "`sandkeep token ls` lists the tokens".to_owned(),
        ErrorCode::ContextNotFound => {
            "`sandkeep contexts ls NAME` lists the contexts of a sandbox".to_owned()
        }
        ErrorCode::CheckpointNotFound => {
            "`sandkeep contexts checkpoints NAME ID` lists the checkpoints".to_owned()
        }
        ErrorCode::TooManyContexts => {
            "`sandkeep contexts rm NAME ID` deletes one with its memory".to_owned()
        }
        ErrorCode::QuotaExceeded => {
            "`sandkeep quotas` shows what the owner may have, and has".to_owned()
        }
        ErrorCode::ExecutionNotSaved => {
            "the code ran, and its variables are as they were before; files stay".to_owned()
        }
        ErrorCode::InstanceStartFailed => {
            "`sandkeep stops NAME` has the failed start; the next command tries anew".to_owned()
        }
        ErrorCode::Internal => "the server's log tells more".to_owned(),
        code if code.retryable() => "nothing was done; the same may succeed later".to_owned(),
        _ => return Vec::new(),
    };
    vec![hint]
}
