//! Names, records, requests, results and errors of Sandkeep.
//!
//! The vocabulary that all crates share. No I/O and no runtime: a value here is
//! either valid or was never made. Marks in the comments (S1, S3, S4, D) name the
//! rule of the contract that an item carries out; see `docs/contract-marks.md`.

mod duration;
mod error;
mod exec;
mod id;
mod info;
mod record;
mod settings;
mod time;

pub use duration::{DurationError, format_ms, parse_ms};
pub use error::{Error, ErrorBody, ErrorCode, Result};
pub use exec::{
    Encoding, Encodings, ExecEvent, ExecRequest, ExecResult, ExecStatus, Execution, StderrMode,
    Stdin,
};
pub use id::{NameError, ObjectId, Owner, RESERVED_NAMES, SandboxId, SandboxName};
pub use info::{
    ContextInfo, DirectoryEntry, Page, SandboxInfo, SandboxSummary, StopRequest, WorkspaceInfo,
};
pub use record::{Cause, Record, State, Stop};
pub use settings::{Limits, Patch, Settings, SettingsRequest, TimeDefaults};
pub use time::iso8601;
