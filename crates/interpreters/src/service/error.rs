//! Why an execution was not possible.

use crate::engines;

/// Why an execution was not possible, or its outcome is not known. What the guest does wrong is
/// none of these: that is in [`super::Done`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No engine has this name, or it is not installed, or it must be compiled again.
    #[error(transparent)]
    Engine(#[from] engines::Error),
    /// The build that a context was made of is not in the cache any more.
    #[error("the engine build {build} that the context was made of is not installed")]
    BuildMissing {
        /// [`engines::EngineBuild::build`].
        build: String,
    },
    /// The files of an engine are not as they were written; nothing ran.
    #[error("the engine {name} is damaged: {what}; `sandkeep engines install {name}` mends it")]
    Damaged {
        /// The engine.
        name: String,
        /// Which file, and what is wrong with it.
        what: String,
    },
    /// The worker died while it ran. The memory is as before; files may have been written.
    #[error("the process that ran the code died; the context is as before")]
    WorkerDied,
    /// No worker could be started; nothing ran. The text names the step.
    #[error("no process for code can be started: {0}")]
    Start(String),
    /// A pack of the snapshot is missing or damaged; nothing ran.
    #[error("the saved memory of the context cannot be used: {file}: {what}")]
    Pack {
        /// Its file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// It ran, and what it left could not be written: the memory is as before.
    #[error("the execution could not be saved: {0}")]
    Save(std::io::Error),
    /// Anything else; nothing ran.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Whether the code may have run, so that files may have changed.
    pub fn may_have_run(&self) -> bool {
        matches!(self, Error::WorkerDied | Error::Save(_))
    }
}
