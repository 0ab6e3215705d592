//! Running a command: request, result, events, history (section 4 of the contract).

use crate::settings::{check_argv, check_env};
use crate::{Error, ErrorBody, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where standard error goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StderrMode {
    /// Its own stream.
    #[default]
    Separate,
    /// Into standard output, in the order of the writes.
    Combined,
}

/// Standard input of a command: text, or bytes as base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum Stdin {
    /// UTF-8 text.
    Text(String),
    /// Any bytes.
    Bytes {
        /// The bytes in base64, standard alphabet, padded.
        base64: String,
    },
}

// The derived reading of untagged enums takes arrays and unknown fields, and names neither.
impl<'de> Deserialize<'de> for Stdin {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        d.deserialize_any(StdinVisitor)
    }
}

struct StdinVisitor;

impl<'de> serde::de::Visitor<'de> for StdinVisitor {
    type Value = Stdin;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("text or {\"base64\": text}")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Stdin, E> {
        Ok(Stdin::Text(text.to_owned()))
    }
    fn visit_string<E: serde::de::Error>(self, text: String) -> std::result::Result<Stdin, E> {
        Ok(Stdin::Text(text))
    }
    fn visit_map<A: serde::de::MapAccess<'de>>(
        self,
        map: A,
    ) -> std::result::Result<Stdin, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Bytes {
            base64: String,
        }
        let Bytes { base64 } =
            Bytes::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        Ok(Stdin::Bytes { base64 })
    }
}

/// Whether `text` is base64: standard alphabet, padded, no bits beyond the last byte.
pub(crate) fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let pads = text.len() - body.len();
    let alphabet = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    let last_fits = match (pads, body.bytes().last()) {
        (0, _) => true,
        (1, Some(last)) => b"AEIMQUYcgkosw048".contains(&last),
        (2, Some(last)) => b"AQgw".contains(&last),
        _ => false,
    };
    text.len().is_multiple_of(4) && last_fits && body.bytes().all(alphabet)
}

/// A hundred years: sums with a clock stay far from overflow.
const MAX_TIMEOUT_MS: u64 = 36_500 * 86_400_000;

/// Body of the routes that run a command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecRequest {
    /// Program and arguments, given to the kernel as they are.
    pub argv: Vec<String>,
    /// Variables over the sandbox's; null removes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Option<String>>,
    /// Working directory; `/workspace` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `uid[:gid]` or a name of the image; root by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Standard input; absent: at its end at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Stdin>,
    /// Kill the tree after this long, ms; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Where standard error goes.
    #[serde(default)]
    pub stderr: StderrMode,
}

impl ExecRequest {
    /// A request with nothing but `argv`.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Checks all that can be checked without an instance; nothing has been started before.
    pub fn validate(&self) -> Result<()> {
        check_argv("argv", &self.argv)?;
        check_env("env", self.env.iter().map(|(k, v)| (k, v.as_ref())))?;
        if let Some(cwd) = &self.cwd
            && (!cwd.starts_with('/') || cwd.contains('\0'))
        {
            return Err(Error::invalid("cwd", "cwd must be an absolute path without NUL"));
        }
        if let Some(user) = &self.user
            && (user.is_empty() || user.contains('\0'))
        {
            return Err(Error::invalid("user", "user must be uid[:gid] or a name of the image"));
        }
        if let Some(Stdin::Bytes { base64 }) = &self.stdin
            && !is_base64(base64)
        {
            let rule = "stdin.base64 must be base64 in the standard alphabet, padded";
            return Err(Error::invalid("stdin.base64", rule));
        }
        if self.timeout_ms.is_some_and(|ms| !(1..=MAX_TIMEOUT_MS).contains(&ms)) {
            let rule = format!("timeoutMs must be between 1 and {MAX_TIMEOUT_MS}");
            return Err(Error::invalid("timeoutMs", rule).with("max", MAX_TIMEOUT_MS));
        }
        Ok(())
    }
}

/// How a stream that is not UTF-8 is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Standard alphabet, padded.
    Base64,
}

/// Which streams are not text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Encodings {
    /// Of `stdout`; absent: text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Encoding>,
    /// Of `stderr`; absent: text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Encoding>,
}

/// The end of a command, whole. Bytes are kept: text when valid UTF-8, else base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecResult {
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// Its exit code; 128 + N when signal N ended it.
    pub exit_code: i32,
    /// The signal that ended it, as `SIGKILL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// Whether want of memory ended it.
    pub oom_killed: bool,
    /// From start to end, ms.
    pub duration_ms: u64,
    /// Whether `stdout` is only the head.
    pub stdout_truncated: bool,
    /// Whether `stderr` is only the head.
    pub stderr_truncated: bool,
    /// Which streams are base64; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encodings>,
}

/// One line of the NDJSON form. `seq` counts from 0 without a gap. A stream that ends without
/// `exit` or `error` says nothing of the command's end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ExecEvent {
    /// The command runs.
    Start {
        /// Position in the stream.
        seq: u64,
        /// The command's id in the history.
        exec_id: String,
    },
    /// Bytes of standard output.
    Stdout {
        /// Position in the stream.
        seq: u64,
        /// The bytes, as text or base64; never cut inside a UTF-8 character.
        data: String,
        /// Absent: text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// Bytes of standard error.
    Stderr {
        /// Position in the stream.
        seq: u64,
        /// The bytes, as text or base64; never cut inside a UTF-8 character.
        data: String,
        /// Absent: text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// Nothing happened for a while, and the command lives.
    Ping {
        /// Position in the stream.
        seq: u64,
    },
    /// The command ended.
    Exit {
        /// Position in the stream.
        seq: u64,
        /// Its exit code; 128 + N when signal N ended it.
        exit_code: i32,
        /// The signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// Whether the time limit ended it.
        timed_out: bool,
        /// Whether want of memory ended it.
        oom_killed: bool,
        /// From start to end, ms.
        duration_ms: u64,
    },
    /// The command's end is not known, or it never started.
    Error {
        /// Position in the stream.
        seq: u64,
        /// Why.
        error: ErrorBody,
    },
}

/// What is known of a command in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecStatus {
    /// It runs.
    Running,
    /// It ended, and its code is true.
    Exited,
    /// Its end was seen by nobody of ours; it has no code.
    Unknown,
}

/// A command in the history of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// Its id, unique for ever.
    pub id: String,
    /// Which instance ran it.
    pub generation: u64,
    /// Program and arguments, cut at 1024 bytes in all.
    pub argv: Vec<String>,
    /// What is known of it.
    pub status: ExecStatus,
    /// When it was started, ms since the epoch.
    pub started_at: i64,
    /// When its end was seen, ms since the epoch; null while it runs.
    pub ended_at: Option<i64>,
    /// Its exit code; null unless `exited`.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// Whether want of memory ended it.
    pub oom_killed: bool,
}
