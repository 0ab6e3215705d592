//! From the errors of the parts to the errors that callers see.

use crate::machine::{Verdict, Why};
use types::{Cause, Error, ErrorCode};

/// A fault of ours. The true text goes to the log, not to the caller.
pub(crate) fn internal(what: &str, error: impl std::fmt::Display) -> Error {
    tracing::error!(%error, "{what}");
    Error::new(ErrorCode::Internal, format!("{what} failed; the server's log has the reason"))
}

pub(crate) fn of_store(error: store::Error) -> Error {
    match error {
        store::Error::Full => Error::new(
            ErrorCode::StorageFull,
            "the disk of the data directory is full; nothing was changed",
        ),
        store::Error::Cursor { .. } => Error::invalid(
            "cursor",
            "cursor is not one of this list: take nextCursor of a page with the same filter",
        ),
        store::Error::Closed => Error::new(ErrorCode::Unavailable, "the server is stopping"),
        store::Error::Destroying => destroyed(),
        store::Error::Quota(quota) => quota.error(),
        other => internal("the store", other),
    }
}

pub(crate) fn of_engine(error: &containers::Error) -> Error {
    use containers::Error as E;
    match error {
        E::ImageNotFound(name) => {
            Error::new(ErrorCode::ImageNotFound, error.to_string()).with("image", name.clone())
        }
        E::ImageInUse(name) => {
            Error::new(ErrorCode::ImageInUse, error.to_string()).with("image", name.clone())
        }
        E::Unsupported(_) => Error::new(ErrorCode::NotSupported, error.to_string()),
        E::StorageFull => Error::new(ErrorCode::StorageFull, error.to_string()),
        E::Entrypoint(_) | E::Failed(_) => Error::new(
            ErrorCode::InstanceStartFailed,
            format!("the instance could not be started: {error}"),
        ),
    }
}

/// The same for what is not a start: `what`, say "reading the logs".
pub(crate) fn of_engine_work(what: &str, error: &containers::Error) -> Error {
    match error {
        containers::Error::Entrypoint(_) | containers::Error::Failed(_) => internal(what, error),
        other => of_engine(other),
    }
}

pub(crate) fn of_exec(error: containers::ExecError) -> Error {
    use containers::ExecError as E;
    let message = error.to_string();
    match error {
        E::NotFound(program) => {
            Error::new(ErrorCode::CommandNotFound, message).with("command", program)
        }
        E::NotExecutable(program) => {
            Error::new(ErrorCode::CommandNotExecutable, message).with("command", program)
        }
        E::CwdNotFound(cwd) => Error::new(ErrorCode::CwdNotFound, message).with("cwd", cwd),
        E::UserNotFound(user) => Error::new(ErrorCode::UserNotFound, message).with("user", user),
        E::ArgumentsTooLarge => Error::new(ErrorCode::ArgumentsTooLarge, message),
        E::Unsupported(_) => Error::new(ErrorCode::NotSupported, message),
        E::InstanceGone => Error::new(ErrorCode::InstanceStopped, message),
        E::StorageFull => Error::new(ErrorCode::StorageFull, message),
        E::Busy(_) => Error::new(ErrorCode::Unavailable, message),
        E::Failed(_) => internal("starting the command", message),
    }
}

pub(crate) fn destroyed() -> Error {
    Error::new(ErrorCode::SandboxDestroyed, "the sandbox was destroyed before this was done")
}

pub(crate) fn not_found() -> Error {
    Error::new(ErrorCode::SandboxNotFound, "no such sandbox")
}

fn stopped(reason: &str, cause: Cause, exit_code: Option<i32>) -> Error {
    Error::new(ErrorCode::InstanceStopped, format!("the instance stopped: {reason}"))
        .with("reason", reason)
        .with("cause", cause.as_str())
        .with("exitCode", exit_code)
}

pub(crate) fn stopped_by(why: &Why) -> Error {
    stopped(&why.reason, why.cause, None)
}

pub(crate) fn stopped_with(verdict: &Verdict) -> Error {
    stopped(&verdict.reason, verdict.cause, verdict.exit_code)
}
