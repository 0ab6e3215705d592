//! What can go wrong with engines.

use std::path::PathBuf;

/// What can go wrong with engines.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No engine has this name.
    #[error("there is no engine {name:?}: {known} are there")]
    Unknown {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// It is not in the cache.
    #[error("the engine {name} is not installed; `sandkeep engines install {name}` does it")]
    NotInstalled {
        /// Its name.
        name: String,
    },
    /// It was compiled for another version of this program, or another processor.
    #[error(
        "the engine {name} is compiled for another version of sandkeep or another processor; \
         `sandkeep engines install {name}` compiles it again"
    )]
    OtherBuild {
        /// Its name.
        name: String,
    },
    /// A program that fetches or builds is not there.
    #[error("{program} is needed to install {engine}, and is not there: {hint}")]
    ProgramMissing {
        /// The program.
        program: &'static str,
        /// For which engine.
        engine: String,
        /// What brings it.
        hint: &'static str,
    },
    /// A program failed.
    #[error("{program} failed ({status}): {output}")]
    ProgramFailed {
        /// The program and its first arguments.
        program: String,
        /// How it ended.
        status: String,
        /// The end of what it said.
        output: String,
    },
    /// A package could not be fetched.
    #[error("cannot fetch {package}: is the package registry reachable? {program} said: {output}")]
    Fetch {
        /// The package and its version.
        package: String,
        /// The client that tried.
        program: String,
        /// The end of what it said.
        output: String,
    },
    /// What came is not what was wanted.
    #[error("{what} has the SHA-256 {found}, and not {wanted}: it is not what this version trusts")]
    Hash {
        /// What.
        what: String,
        /// Its hash, hex.
        found: String,
        /// The pinned hash, hex.
        wanted: String,
    },
    /// A file of the cache is not as it was written.
    #[error("{file} in the engine cache is damaged: {what}; `sandkeep engines install` mends it")]
    Damaged {
        /// Which, relative to the cache.
        file: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Contexts of a server that runs as root have ids of their own, and may not enter a directory of
    /// the cache.
    #[error(
        "the engine cache is its owner's alone, and code runs with ids of its own: \
         `chmod 755 {dir}` opens it"
    )]
    Closed {
        /// Which.
        dir: PathBuf,
    },
    /// A module is not as expected.
    #[error("the module of {engine} is not as expected: {what}")]
    Module {
        /// Which engine.
        engine: String,
        /// What is wrong.
        what: String,
    },
    /// The compiler failed.
    #[error("cannot compile {engine}: {what}")]
    Compile {
        /// Which engine.
        engine: String,
        /// What it said.
        what: String,
    },
    /// The interpreter did not start.
    #[error("{engine} did not start: {what}")]
    Boot {
        /// Which engine.
        engine: String,
        /// What happened.
        what: String,
    },
    /// This processor's packages are not known.
    #[error("the package {package} is not known for {arch} processors")]
    Arch {
        /// The package.
        package: &'static str,
        /// The processor.
        arch: &'static str,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Names the file in an error.
pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |source| Error::Io { path, source }
}
