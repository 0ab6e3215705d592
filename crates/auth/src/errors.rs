//! What callers are told.

use types::{Error, ErrorCode};

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
        store::Error::Quota(quota) => quota.error(),
        store::Error::Closed => Error::new(ErrorCode::Unavailable, "the server is stopping"),
        other => internal("the store", other),
    }
}

pub(crate) fn unauthenticated(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::Unauthenticated, message)
}

/// One text for all: whoever guesses learns nothing.
pub(crate) fn bad_token() -> Error {
    unauthenticated("the token is not valid: it is unknown, expired or revoked")
}
