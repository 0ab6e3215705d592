//! Why an import was refused.

use std::io;

/// Why an import was refused. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The name breaks the rule; the text says which.
    #[error("{0}")]
    Name(String),
    /// There is an image of this name.
    #[error("there is an image named {0:?}; remove it first")]
    Exists(String),
    /// The source cannot be read, or is not what it should be.
    #[error("the source cannot be read: {0}")]
    Source(io::Error),
    /// The source is of a kind that is not understood.
    #[error("{0}")]
    Kind(String),
    /// An entry of the source would reach outside the image.
    #[error("entry {entry:?} is refused: {why}")]
    Hostile {
        /// Its name in the source.
        entry: String,
        /// What is wrong with it.
        why: String,
    },
    /// The disk of the data directory is full.
    #[error("the disk of the data directory is full")]
    StorageFull,
    /// The image cannot be written.
    #[error("the image cannot be written: {0}")]
    Store(io::Error),
}

impl ImageError {
    pub(crate) fn storing(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::StorageFull,
            _ => Self::Store(error),
        }
    }

    pub(crate) fn hostile(entry: &std::path::Path, why: impl Into<String>) -> Self {
        Self::Hostile { entry: entry.to_string_lossy().into_owned(), why: why.into() }
    }
}
