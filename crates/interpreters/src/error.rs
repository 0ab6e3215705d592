//! What can go wrong around an instance.

use crate::Stop;
use crate::pack::PackError;

/// What can go wrong around an instance; what goes wrong in one is a [`Stop`].
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// A module and its parts cannot be brought together.
    #[error("the interpreter cannot be loaded: {0}")]
    Load(String),
    /// An instance cannot be made.
    #[error("the interpreter cannot be started: {0}")]
    Start(String),
    /// It was stopped while it started.
    #[error("the interpreter did not start")]
    Boot(#[source] Stop),
    /// The memory that a snapshot needs is more than is allowed, bytes.
    #[error("the context has {has} bytes of memory; {limit} are allowed")]
    TooLarge {
        /// What it has.
        has: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A snapshot was taken of another build.
    #[error("the snapshot belongs to another build of the interpreter")]
    OtherBuild,
    /// A pack of a snapshot cannot be used.
    #[error("{file}: {error}")]
    Pack {
        /// Its file.
        file: String,
        /// Why.
        #[source]
        error: PackError,
    },
    /// The guest is not at rest, so that its memory is not all of its state.
    #[error("the interpreter cannot be saved: {0}")]
    NotAtRest(String),
    /// A pack or an image cannot be written.
    #[error("the memory cannot be written")]
    Write(#[from] std::io::Error),
}
