//! Names, records, requests, results and errors of Sandkeep.
//!
//! The vocabulary that all crates share. No I/O and no runtime: a value here is
//! either valid or was never made. Marks in the comments (S1, S3, S4, D) name the
//! rule of the contract that an item carries out; see `docs/contract-marks.md`.

mod account;
mod before_stop;
mod code;
mod duration;
mod error;
mod event;
mod exec;
mod files;
mod id;
mod info;
mod instance;
mod list;
mod quotas;
mod record;
mod settings;
mod time;
mod token;
mod webhook;

pub use account::{
    AccountError, AccountFailure, Application, Envelope, Instance, InstanceConfiguration,
    InstanceFilter, InstanceList, InstanceState, InstanceStatus, PageInfo,
};
pub use before_stop::{BEFORE_STOP_MAX_MS, BEFORE_STOP_MS, BeforeStop};
pub use code::{
    BindingInfo, BindingList, CODE_MAX, CODE_OUTPUT_MAX, CODE_TIMEOUT_MAX_MS, CODE_TIMEOUT_MS,
    CONTEXTS_MAX, CheckpointInfo, CheckpointList, CheckpointRequest, CodeError, CodeEvent,
    CodeRequest, CodeResult, ContextInfo, ContextList, ContextRef, ContextRequest, EngineInfo,
    EngineList, EnvRequest, Language, LogEntry, Logs, RichResult, SnapshotInfo, Stream, Usage,
    check_code_env,
};
pub use duration::{DurationError, format_ms, parse_ms};
pub use error::{Error, ErrorBody, ErrorCode, Result};
pub use event::{Event, EventPage, EventType};
pub use exec::{
    Encoding, Encodings, ExecEvent, ExecRequest, ExecResult, ExecStatus, Execution, StderrMode,
    Stdin,
};
pub use files::{
    DeleteFileResult, FileInfo, FileOperation, FilePermissions, FileType, FilesOp, FilesRequest,
    FilesResult, ListFilesResult, UnpackResult, WatchEvent, WriteFileResult,
};
pub use id::{NameError, ObjectId, Owner, RESERVED_NAMES, SandboxId, SandboxName};
pub use info::{DirectoryEntry, Page, SandboxInfo, SandboxSummary, StopRequest, WorkspaceInfo};
pub use instance::{RunningInstance, RunningList};
pub use list::{LABELS_MAX, ListFilter, Sort, Span, changed_labels};
pub use quotas::{QuotaExceeded, QuotaKind, QuotaReport, QuotaScope, QuotaTable, QuotaUse, Quotas};
pub use record::{Cause, Record, State, Stop};
pub use settings::{Limits, Patch, Settings, SettingsRequest, TimeDefaults};
pub use time::{iso8601, parse_time};
pub use token::{Grant, NewToken, Scope, TokenInfo, TokenPage, TokenRequest};
pub use webhook::{RedeliverRequest, RedeliverResult, WebhookInfo, WebhookList};
