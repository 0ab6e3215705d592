//! The errors that a caller sees: a stable code, a message, a context.

use crate::iso8601;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `Result` with a public error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:tt, $status:literal, $retryable:literal;)*) => {
        /// What went wrong, as a stable code. Each has a page in `docs/errors/`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }
        impl ErrorCode {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name),*];
            /// The code as it is written in answers.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }
            /// The HTTP status that goes with it.
            pub fn http_status(self) -> u16 {
                match self { $(ErrorCode::$name => $status,)* }
            }
            /// Whether the same request may succeed later, having done nothing now.
            pub fn retryable(self) -> bool {
                match self { $(ErrorCode::$name => $retryable,)* }
            }
        }
    };
}

codes! {
    /// The request is not well formed; the context names the field.
    ValidationFailed = "VALIDATION_FAILED", 400, false;
    /// The caller proved no identity.
    Unauthenticated = "UNAUTHENTICATED", 401, false;
    /// The caller may not do this; in open mode also a foreign `Host` or `Origin`.
    Forbidden = "FORBIDDEN", 403, false;
    /// No such route.
    NotFound = "NOT_FOUND", 404, false;
    /// No such sandbox of this owner.
    SandboxNotFound = "SANDBOX_NOT_FOUND", 404, false;
    /// No such context of this sandbox. Context `{contextId}`.
    ContextNotFound = "CONTEXT_NOT_FOUND", 404, false;
    /// No such checkpoint of this context.
    CheckpointNotFound = "CHECKPOINT_NOT_FOUND", 404, false;
    /// No such token.
    TokenNotFound = "TOKEN_NOT_FOUND", 404, false;
    /// No such file or directory (ENOENT).
    FileNotFound = "FILE_NOT_FOUND", 404, false;
    /// The route exists below `/v1`, the method does not.
    MethodNotAllowed = "METHOD_NOT_ALLOWED", 405, false;
    /// It is there already (EEXIST).
    FileExists = "FILE_EXISTS", 409, false;
    /// The path leads out of `/workspace`, or may not be touched (EACCES).
    PermissionDenied = "PERMISSION_DENIED", 403, false;
    /// It is a directory, and a file was meant (EISDIR).
    IsDirectory = "IS_DIRECTORY", 400, false;
    /// It is no directory, and one was meant (ENOTDIR).
    NotDirectory = "NOT_DIRECTORY", 400, false;
    /// The file is larger than the server takes (EFBIG). Context `{maxSize, actualSize}`.
    FileTooLarge = "FILE_TOO_LARGE", 413, false;
    /// The workspace is at its limit (ENOSPC).
    NoSpace = "NO_SPACE", 500, false;
    /// Another error of the file system; the context has its `errno`.
    FilesystemError = "FILESYSTEM_ERROR", 500, false;
    /// A checkpoint of this name is there.
    CheckpointExists = "CHECKPOINT_EXISTS", 409, false;
    /// The sandbox has as many contexts as it may have.
    TooManyContexts = "TOO_MANY_CONTEXTS", 409, false;
    /// The context belongs to an engine that is not installed any more; see its page.
    EngineChanged = "ENGINE_CHANGED", 409, false;
    /// The sandbox exists with other settings.
    SettingsConflict = "SETTINGS_CONFLICT", 409, false;
    /// The instance went away; the command may have run. Context `{reason, cause, exitCode}`.
    InstanceStopped = "INSTANCE_STOPPED", 409, false;
    /// A destroy overtook the request, which did nothing.
    SandboxDestroyed = "SANDBOX_DESTROYED", 409, true;
    /// The image is in use by a running instance.
    ImageInUse = "IMAGE_IN_USE", 409, true;
    /// The body is larger than the route takes.
    RequestTooLarge = "REQUEST_TOO_LARGE", 413, false;
    /// The kernel takes no argument list of this size (E2BIG).
    ArgumentsTooLarge = "ARGUMENTS_TOO_LARGE", 413, false;
    /// The body is not JSON by its content type.
    UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE", 415, false;
    /// The file has no byte of the range that was asked for. Context `{size}`.
    RangeNotSatisfiable = "RANGE_NOT_SATISFIABLE", 416, false;
    /// The program of a command is not in the instance.
    CommandNotFound = "COMMAND_NOT_FOUND", 422, false;
    /// The program of a command is there and cannot be executed.
    CommandNotExecutable = "COMMAND_NOT_EXECUTABLE", 422, false;
    /// The working directory is not there.
    CwdNotFound = "CWD_NOT_FOUND", 422, false;
    /// The user is unknown to the image, or outside the ids that the instance has.
    UserNotFound = "USER_NOT_FOUND", 422, false;
    /// No image of this name.
    ImageNotFound = "IMAGE_NOT_FOUND", 422, false;
    /// The engine of this binding is not installed; the message has the command that does it.
    EngineNotInstalled = "ENGINE_NOT_INSTALLED", 422, false;
    /// The engine, the mode or the operator does not offer this.
    NotSupported = "NOT_SUPPORTED", 422, false;
    /// Too many requests or sandboxes for now.
    TooManyRequests = "TOO_MANY_REQUESTS", 429, true;
    /// A limit of the owner or of the server is reached. Context `{what, limit, current?, scope}`.
    /// 409 and not retryable where somebody has to remove something first.
    QuotaExceeded = "QUOTA_EXCEEDED", 429, true;
    /// The command's end was seen by nobody of ours. It may have run.
    CommandUnknown = "COMMAND_UNKNOWN", 500, false;
    /// The stored memory of the context is damaged; other contexts are not.
    SnapshotCorrupt = "SNAPSHOT_CORRUPT", 500, false;
    /// A fault of the server; its log has the request id.
    Internal = "INTERNAL", 500, false;
    /// The instance could not be started; nothing ran.
    InstanceStartFailed = "INSTANCE_START_FAILED", 503, true;
    /// The machine has no memory for another instance just now; nothing ran. Context `{what}`.
    MemoryShort = "MEMORY_SHORT", 503, true;
    /// The server is starting or stopping.
    Unavailable = "UNAVAILABLE", 503, true;
    /// The execution ran and could not be saved; the context is as before it.
    ExecutionNotSaved = "EXECUTION_NOT_SAVED", 507, false;
    /// The disk of the data directory is full; nothing was acknowledged.
    StorageFull = "STORAGE_FULL", 507, true;
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error that a caller sees. `context` names the thing: a field, a limit, a reason.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The stable code.
    pub code: ErrorCode,
    /// One sentence for a person.
    pub message: String,
    /// Facts for a program.
    pub context: Map<String, Value>,
}

impl Error {
    /// An error without context.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), context: Map::new() }
    }

    /// Adds a fact to the context.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.context.insert(key.to_owned(), value.into());
        self
    }

    /// A [`ErrorCode::ValidationFailed`] of one field.
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ValidationFailed, message).with("field", field)
    }

    /// The HTTP status of the answer: that of the code, but for quotas that need an act.
    pub fn http_status(&self) -> u16 {
        if self.needs_an_act() { 409 } else { self.code.http_status() }
    }

    /// Whether the same request may succeed later, having done nothing now.
    pub fn retryable(&self) -> bool {
        self.code.retryable() && !self.needs_an_act()
    }

    /// The body of the answer, at `now_ms` since the epoch.
    pub fn body(&self, now_ms: i64) -> ErrorBody {
        ErrorBody {
            code: self.code,
            message: self.message.clone(),
            context: self.context.clone(),
            http_status: self.http_status(),
            retryable: self.retryable(),
            timestamp: iso8601(now_ms),
        }
    }
}

/// The JSON body of every answer that is not 2xx, outside `/client/v4`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// The stable code.
    pub code: ErrorCode,
    /// One sentence for a person.
    pub message: String,
    /// Facts for a program.
    #[schema(value_type = Object)]
    pub context: Map<String, Value>,
    /// The HTTP status of the answer.
    pub http_status: u16,
    /// Whether the same request may succeed later, having done nothing now.
    pub retryable: bool,
    /// When it happened, ISO 8601 in UTC.
    pub timestamp: String,
}

impl From<ErrorBody> for Error {
    fn from(body: ErrorBody) -> Self {
        Self { code: body.code, message: body.message, context: body.context }
    }
}
