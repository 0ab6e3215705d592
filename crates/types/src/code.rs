//! Code contexts: requests, results, events (S4; sections 8 and 9 of the contract).

use crate::exec::{Encoding, Stdin};
use crate::settings::check_env;
use crate::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Longest code of one execution, bytes.
pub const CODE_MAX: usize = 64 << 10;
/// Most contexts of one sandbox.
pub const CONTEXTS_MAX: usize = 8;
/// Time limit of an execution that names none, ms.
pub const CODE_TIMEOUT_MS: u64 = 30_000;
/// Longest time limit of an execution, ms.
pub const CODE_TIMEOUT_MAX_MS: u64 = 24 * 3_600_000;
/// Output kept of one execution, both streams together, bytes; the rest is counted and dropped.
pub const CODE_OUTPUT_MAX: usize = 1 << 20;

/// A language that contexts speak.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// CPython; also `py`, `python3`.
    #[serde(alias = "py", alias = "python3")]
    Python,
    /// QuickJS-NG; TypeScript's types are stripped. Also `js`, `node`, `typescript`, `ts`.
    #[serde(alias = "js", alias = "node", alias = "typescript", alias = "ts")]
    Javascript,
    /// CRuby; also `rb`.
    #[serde(alias = "rb")]
    Ruby,
    /// Perl 5; also `pl`.
    #[serde(alias = "pl")]
    Perl,
}

impl Language {
    /// As it is written in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Javascript => "javascript",
            Language::Ruby => "ruby",
            Language::Perl => "perl",
        }
    }
}

/// Body of `POST /v1/sandboxes/{id}/contexts`. One of `binding` and `language` must be there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextRequest {
    /// The name of an engine, as `PYTHON`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// A language: the first binding of that language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Working directory; `/workspace` by default. It must lie below `/workspace` and need not
    /// exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables of the context, over the sandbox's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env_vars: BTreeMap<String, String>,
}

/// A code context of a sandbox (S4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextInfo {
    /// Its id, unique for ever.
    pub id: String,
    /// The binding that it was made with.
    pub binding: String,
    /// Its language.
    pub language: Language,
    /// The interpreter and its version.
    pub engine: String,
    /// Its working directory after the last execution.
    pub cwd: String,
    /// When it was made, ISO 8601 in UTC.
    pub created_at: String,
    /// When it last ran code, ISO 8601 in UTC.
    pub last_used: String,
    /// How many executions were saved.
    pub executions: u64,
    /// Its last snapshot; null before the first.
    pub snapshot: Option<SnapshotInfo>,
}

/// The last snapshot of a context's memory (S4; `memoryBytes` and `diskBytes` are D).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotInfo {
    /// Hex of the wasm module's and the base image's hash.
    pub build: String,
    /// 64 KiB pages of the linear memory with a byte that is not zero.
    pub pages: u64,
    /// `pages` × 65 536.
    pub bytes: u64,
    /// Nominal size: 1 MiB chunks that hold such a page, × 1 MiB.
    pub stored_bytes: u64,
    /// When it was taken, ISO 8601 in UTC.
    pub taken_at: String,
    /// The last execution could not be saved; this is the state before it.
    pub stale: bool,
    /// Size of the linear memory, bytes.
    pub memory_bytes: u64,
    /// What it really takes on the disk, bytes.
    pub disk_bytes: u64,
}

/// Body of `POST /v1/sandboxes/{id}/contexts/{ctx}/execute`, and, with `binding` or `language`
/// (and, in a sandbox, `contextId`), of the `execute` routes without a context in the path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CodeRequest {
    /// The code; 1 byte to 64 KiB.
    pub code: String,
    /// The context to run it in; it counts more than `binding`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// The binding whose default context runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// The language whose first binding is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Variables over the context's; null removes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env_vars: BTreeMap<String, Option<String>>,
    /// Stop after this long, ms; 30 000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Standard input; absent: at its end at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Stdin>,
}

impl CodeRequest {
    /// Checks all that can be checked without a context; nothing has run before.
    pub fn validate(&self) -> Result<()> {
        if self.code.trim().is_empty() {
            return Err(Error::invalid("code", "code must not be empty"));
        }
        if self.code.len() > CODE_MAX {
            let text =
                format!("code has {} bytes: at most {CODE_MAX} are allowed", self.code.len());
            return Err(Error::new(ErrorCode::RequestTooLarge, text)
                .with("field", "code")
                .with("limit", CODE_MAX));
        }
        check_code_env("envVars", self.env_vars.iter().map(|(k, v)| (k, v.as_ref())))?;
        if let Some(Stdin::Bytes { base64 }) = &self.stdin
            && !crate::exec::is_base64(base64)
        {
            let rule = "stdin.base64 must be base64 in the standard alphabet, padded";
            return Err(Error::invalid("stdin.base64", rule));
        }
        if self.timeout_ms.is_some_and(|ms| !(1..=CODE_TIMEOUT_MAX_MS).contains(&ms)) {
            let rule = format!("timeoutMs must be between 1 and {CODE_TIMEOUT_MAX_MS}");
            return Err(Error::invalid("timeoutMs", rule).with("max", CODE_TIMEOUT_MAX_MS));
        }
        Ok(())
    }
}

/// Variables of code: names as `^[A-Za-z_][A-Za-z0-9_]*$`, values without NUL (S4).
pub fn check_code_env<'a>(
    field: &str,
    vars: impl Iterator<Item = (&'a String, Option<&'a String>)> + Clone,
) -> Result<()> {
    for (name, _) in vars.clone() {
        let mut bytes = name.bytes();
        let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !first || !bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            let rule = format!("{field}: the name {name:?} must match ^[A-Za-z_][A-Za-z0-9_]*$");
            return Err(Error::invalid(field, rule));
        }
    }
    check_env(field, vars)
}

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of output, in the order of the writes. Never cut inside a UTF-8 character.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LogEntry {
    /// Which stream.
    pub stream: Stream,
    /// The bytes, as text, or as base64 where they are not UTF-8.
    pub text: String,
    /// When it was written, ms since the epoch.
    pub at: i64,
    /// Absent: text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

/// What an execution wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Logs {
    /// Lines of standard output without their line ends; bytes that are not UTF-8 as `\xNN`.
    pub stdout: Vec<String>,
    /// Lines of standard error, likewise.
    pub stderr: Vec<String>,
    /// Both, in order and exact.
    pub entries: Vec<LogEntry>,
    /// Whether something is missing: of the output, whose bytes `usage.outputBytes` counts all the same, or of a
    /// value's text, its JSON or an error's message.
    pub truncated: bool,
}

/// A result: the value of the last expression, or something displayed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RichResult {
    /// The value in the language's own notation. Of a longer one the first MiB, and how many more characters
    /// there are; `logs.truncated` is true then.
    pub text: String,
    /// The value, where JSON holds it without loss for every reader, in at most 1 MiB. Where it would be longer
    /// it is absent, and `logs.truncated` is true.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
    #[schema(value_type = Value)]
    pub json: Option<Value>,
    /// Further forms by MIME type: text as it is, `image/png` and other binary types in base64.
    #[serde(flatten)]
    pub mime: BTreeMap<String, String>,
}

/// `json: null` is a value, not an absence.
mod present {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub fn serialize<S: Serializer>(v: &Option<Value>, s: S) -> Result<S::Ok, S::Error> {
        v.serialize(s)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Value>, D::Error> {
        Value::deserialize(d).map(Some)
    }
}

/// An error of the guest, or a limit: `name` is the language's own, or `ExecutionLimitError`,
/// or `EngineError` where the interpreter itself broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeError {
    /// The exception's name.
    pub name: String,
    /// Its message.
    pub message: String,
    /// Its traceback, line by line, without frames of the driver.
    pub traceback: Vec<String>,
    /// Line of the executed code, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_number: Option<u32>,
}

/// What an execution took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Processor time, ms.
    pub cpu_ms: u64,
    /// Size of the linear memory afterwards, bytes.
    pub memory_bytes: u64,
    /// All that was written, kept or not, bytes.
    pub output_bytes: u64,
}

/// The context that an execution ran in, as it is afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextRef {
    /// Its id.
    pub id: String,
    /// Its working directory.
    pub cwd: String,
    /// How many executions were saved.
    pub executions: u64,
    /// How long saving took, ms; absent: nothing was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_ms: Option<u64>,
    /// When the sandbox expires, ms since the epoch; null when expiry is off.
    pub expires_at: Option<i64>,
}

/// The end of an execution (S4). Guest errors and limits are results, not HTTP errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeResult {
    /// The code.
    pub code: String,
    /// Its language.
    pub language: Language,
    /// The interpreter and its version.
    pub engine: String,
    /// From start to end, ms.
    pub duration_ms: u64,
    /// What it wrote. Empty in the `end` event of a stream, which sent it before.
    pub logs: Logs,
    /// Its results, displayed ones first. Empty in the `end` event of a stream.
    pub results: Vec<RichResult>,
    /// Why it failed; absent: it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CodeError>,
    /// How many executions were saved; absent without a context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_count: Option<u64>,
    /// What it took.
    pub usage: Usage,
    /// The context; absent for a stateless execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextRef>,
    /// The context's memory is as before this execution. Files are never rolled back.
    pub rolled_back: bool,
}

/// One line of the NDJSON form, or one event of the SSE form. `seq` counts from 0 without a gap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CodeEvent {
    /// A piece of standard output.
    Stdout {
        /// Position in the stream.
        seq: u64,
        /// The bytes, as text or base64.
        text: String,
        /// When it was written, ms since the epoch.
        at: i64,
        /// Absent: text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// A piece of standard error.
    Stderr {
        /// Position in the stream.
        seq: u64,
        /// The bytes, as text or base64.
        text: String,
        /// When it was written, ms since the epoch.
        at: i64,
        /// Absent: text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// A result.
    Result {
        /// Position in the stream.
        seq: u64,
        /// The result.
        result: RichResult,
    },
    /// The guest failed, or a limit was met; `end` follows. With `httpStatus` in it: the server
    /// failed, the end is not known, nothing follows.
    Error {
        /// Position in the stream.
        seq: u64,
        /// The guest's error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<CodeError>,
        /// The server's error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<crate::ErrorBody>,
    },
    /// Nothing happened for a while, and it runs.
    Ping {
        /// Position in the stream.
        seq: u64,
    },
    /// The end; `logs` and `results` were sent before and are empty here.
    End {
        /// Position in the stream.
        seq: u64,
        /// The rest of the result.
        result: Box<CodeResult>,
    },
}

/// Body of `POST …/checkpoints`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointRequest {
    /// Its name: the alphabet of sandbox ids, 1 to 63 characters; unique in its context.
    pub name: String,
}

/// A kept state of a context, to roll back to (D).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointInfo {
    /// Its name.
    pub name: String,
    /// When it was made, ISO 8601 in UTC.
    pub created_at: String,
    /// Executions of the context up to it.
    pub executions: u64,
    /// What it takes on the disk where nothing else holds the same packs, bytes.
    pub disk_bytes: u64,
}

/// A name under which callers ask for an engine (D).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingInfo {
    /// The binding, as `PYTHON`.
    pub binding: String,
    /// What it speaks.
    pub language: Language,
    /// The engine's name, as `engines install` takes it.
    pub name: String,
    /// The interpreter and its version; null where it is not installed.
    pub engine: Option<String>,
    /// Hex of the hashes of its module and base image; null where it is not installed.
    pub build: Option<String>,
    /// Whether it is installed.
    pub installed: bool,
}

/// Answer of `GET /v1/bindings`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BindingList {
    /// In order: the first of a language is the one that `language` means.
    pub bindings: Vec<BindingInfo>,
}

/// A build of an engine: installed, or needed by contexts, or both (D).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineInfo {
    /// The engine's name; null where the build is not installed.
    pub name: Option<String>,
    /// The interpreter and its version; null where the build is not installed.
    pub engine: Option<String>,
    /// Hash of its module, hex.
    pub wasm: String,
    /// Hash of its base image, hex.
    pub base: String,
    /// Whether it is installed and runs here.
    pub installed: bool,
    /// Whether the memory of a context, or a checkpoint, belongs to it.
    pub in_use: bool,
}

/// Answer of `GET /v1/admin/engines`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EngineList {
    /// All builds that are installed or needed.
    pub engines: Vec<EngineInfo>,
}

/// Answer of `GET …/contexts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ContextList {
    /// Oldest first.
    pub contexts: Vec<ContextInfo>,
}

/// Answer of `GET …/checkpoints`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CheckpointList {
    /// Oldest first.
    pub checkpoints: Vec<CheckpointInfo>,
}

/// Body of `POST /v1/sandboxes/{id}/env`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvRequest {
    /// Variables to set, or with null to remove.
    pub env_vars: BTreeMap<String, Option<String>>,
}
