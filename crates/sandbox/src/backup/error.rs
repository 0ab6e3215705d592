//! What goes wrong with backups.

use std::path::PathBuf;

/// Why a backup was not written or not restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file or a directory could not be read or written.
    #[error("cannot {action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// The archive could not be written.
    #[error("cannot write the backup")]
    Out(#[source] std::io::Error),
    /// The store, or its copy, cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Nobody said where the data directory is.
    #[error("there is no data directory to back up")]
    NoDirectory,
    /// The archive is no backup.
    #[error("this is no backup of this program: {0}")]
    Foreign(String),
    /// A newer release wrote it.
    #[error("the backup has format {found}, and this release knows {known}")]
    Newer {
        /// Its format.
        found: u64,
        /// The newest one that is known.
        known: u64,
    },
    /// It was not written to its end.
    #[error("the backup is not whole: it ends within {0}")]
    Half(String),
    /// Something in it is not what was written, or nothing that a backup has.
    #[error("the backup is damaged: {path} {what}")]
    Damaged {
        /// Which part.
        path: String,
        /// How it shows.
        what: String,
    },
    /// The directory has something in it.
    #[error("{} is not empty: a backup is restored into an empty directory only", .0.display())]
    NotEmpty(PathBuf),
}

impl BackupError {
    pub(super) fn file(
        action: &'static str,
        path: impl Into<String>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}

pub(super) fn damaged(path: impl Into<String>, what: impl Into<String>) -> BackupError {
    BackupError::Damaged { path: path.into(), what: what.into() }
}
