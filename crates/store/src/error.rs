//! What can go wrong, and what it means for the caller.

use std::path::PathBuf;
use std::sync::Arc;

/// `Result` of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the store did not do what it was asked. Where a write ends in an error, nothing of it was
/// kept.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another process has the directory.
    #[error("{} is in use by {}: only one server may use a data directory; stop that one or choose another directory", path.display(), holder(*pid))]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The process that holds it, where it is known.
        pid: Option<u32>,
    },
    /// A restore into the directory did not come to its end.
    #[error("a restore into {} was not finished: restore the backup again, which begins anew", path.display())]
    HalfRestored {
        /// The data directory.
        path: PathBuf,
    },
    /// The database is damaged. Nothing was changed.
    #[error("{} is damaged ({detail}); nothing was changed. Copy {0} and {0}-wal to a safe place first. Then restore a backup of them, or recover what is readable (`sqlite3 {0} .recover | sqlite3 new.db`), or move {0}, {0}-wal, {0}-shm and store.reserve away to begin with an empty store", path.display())]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// A newer release wrote the database. Nothing was changed.
    #[error("{} has schema version {found}, and this release knows versions up to {known}: use the release that wrote it, or a newer one", path.display())]
    Newer {
        /// The database file.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The newest version that this release knows.
        known: i64,
    },
    /// The disk, or the quota on it, is full. Nothing was acknowledged; the same call works once
    /// there is space again.
    #[error("the disk of the data directory is full")]
    Full,
    /// The cursor was made for another list, or by another store, or is no cursor.
    #[error("the cursor is not one of this list: {detail}")]
    Cursor {
        /// What is wrong with it.
        detail: &'static str,
    },
    /// A start, and the record says that an instance runs.
    #[error("an instance of the sandbox is running already")]
    AlreadyRunning,
    /// A destroy of the sandbox was accepted and is not finished.
    #[error("the sandbox is being destroyed")]
    Destroying,
    /// What was to be written to is not there, or goes.
    #[error("it is not there any more")]
    Missing,
    /// One of this name is there.
    #[error("one of this name is there already")]
    Exists,
    /// There are as many as there may be.
    #[error("there are {limit} already, and no more are allowed")]
    TooMany {
        /// How many there may be.
        limit: u32,
    },
    /// A limit of the owner, or of all together, is reached.
    #[error("a limit is reached: {}", .0.what.as_str())]
    Quota(types::QuotaExceeded),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The operation met a defect of the program; the store goes on.
    #[error("the operation failed inside: {0}")]
    Panicked(String),
    /// A file of the store could not be used.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// SQLite failed in a way that has no name of its own here.
    #[error("the database failed")]
    Sqlite(#[source] Arc<rusqlite::Error>),
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl Error {
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: std::io::Error,
    ) -> Self {
        Self::File { action, path: path.into(), source: Arc::new(source) }
    }

    /// Whether the failure may come from a full disk without SQLite saying so: SQLite reports
    /// some writes that found no space as plain I/O errors, and quotas always so.
    pub(crate) fn maybe_full(&self) -> bool {
        let Self::Sqlite(error) = self else { return false };
        matches!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::SystemIoFailure | rusqlite::ErrorCode::CannotOpen)
        )
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Self::Full,
            _ => Self::Sqlite(Arc::new(error)),
        }
    }
}
