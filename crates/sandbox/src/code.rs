//! Code contexts: interpreters of a sandbox whose memory survives (sections 8 and 9 of the
//! contract).
//!
//! An execution holds the sandbox, waits for its context's turn, runs in the sandbox's worker
//! process, and is saved whole before its answer: pack file first, then the context's row, with
//! what a small pack holds beside it until its file is on the disk by itself (`fresh.rs`). A crash at any point leaves the row true; what no row names is removed when the sandbox's code
//! is next used (`packs.rs`). What a context is stands in the store alone; a worker's memory is
//! a copy of it that counts while it is as new as the row.

mod answer;
mod bindings;
mod checkpoints;
mod contexts;
mod env;
mod execute;
mod fresh;
mod job;
mod keep;
mod live;
mod packs;
mod stateless;
mod stream;

pub use bindings::Binding;
pub use stream::CodeStream;

pub(crate) use fresh::{settle, take_up};
pub(crate) use keep::Kept;

use bindings::Bindings;
use interpreters::Interpreters;
use interpreters::engines::EngineBuild;
use live::Live;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use types::{Error, ErrorCode, ObjectId, Result};

/// Stateless executions at once; more wait.
const STATELESS: usize = 16;
/// Most checkpoints of one context.
const CHECKPOINTS: u32 = 64;

/// How code is run.
pub struct CodeOptions {
    /// Who runs it; `None`: nobody, and every request for it is refused.
    pub interpreters: Option<Interpreters>,
    /// The bindings, in order: the first of a language is that language's.
    pub bindings: Vec<Binding>,
}

impl Default for CodeOptions {
    fn default() -> Self {
        Self { interpreters: None, bindings: Binding::usual() }
    }
}

/// What all sandboxes share to run code.
pub(crate) struct Code {
    interpreters: Option<Interpreters>,
    bindings: Bindings,
    live: Mutex<HashMap<ObjectId, Arc<Live>>>,
    stateless: Semaphore,
    keeping: keep::Keeping,
    fresh: Arc<fresh::Fresh>,
}

impl Code {
    pub fn new(options: CodeOptions) -> Self {
        Self {
            interpreters: options.interpreters,
            bindings: Bindings::new(options.bindings),
            live: Mutex::default(),
            stateless: Semaphore::new(STATELESS),
            keeping: keep::Keeping::default(),
            fresh: Arc::default(),
        }
    }

    fn interpreters(&self) -> Result<&Interpreters> {
        let none = || Error::new(ErrorCode::NotSupported, "this server runs no code");
        self.interpreters.as_ref().ok_or_else(none)
    }

    /// The engine that a binding stands for. Errors: `ENGINE_NOT_INSTALLED`.
    fn engine(&self, name: &str) -> Result<EngineBuild> {
        self.interpreters()?.find(name).map_err(|e| of_interpreters(e, None))
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ObjectId, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From the errors of interpreters to those that callers see; `context`: of which context.
fn of_interpreters(error: interpreters::Error, context: Option<&str>) -> Error {
    use interpreters::Error as E;
    use interpreters::engines::Error as Engine;
    let text = error.to_string();
    let error = match error {
        E::Engine(Engine::NotInstalled { name } | Engine::OtherBuild { name })
        | E::Damaged { name, .. } => {
            let command = format!("sandkeep engines install {name}");
            // Its path is the operator's alone.
            let text = format!("{text}, with `--engine-cache` where the server has that");
            let error = Error::new(ErrorCode::EngineNotInstalled, text);
            error.with("engine", name).with("command", command)
        }
        E::Engine(Engine::Closed { .. }) => {
            // Where it is is the operator's alone.
            tracing::error!(error = text, "no code can be run");
            let text = "code runs with ids of its own and cannot enter the engine cache, which is \
                        its owner's alone; `sandkeep doctor` has the command that opens it";
            Error::new(ErrorCode::EngineNotInstalled, text)
        }
        E::BuildMissing { build } => {
            Error::new(ErrorCode::EngineChanged, text).with("build", build)
        }
        E::Pack { file, .. } => Error::new(ErrorCode::SnapshotCorrupt, text).with("pack", file),
        E::Save(error) => not_saved(&error),
        E::Start(_) => {
            tracing::error!(error = text, "a worker could not be started");
            Error::new(ErrorCode::Unavailable, "no process for code could be started; nothing ran")
        }
        E::Engine(_) | E::WorkerDied | E::Failed(_) => {
            crate::errors::internal("running code", text)
        }
    };
    match context {
        Some(context) => error.with("contextId", context),
        None => error,
    }
}

/// It ran, and was not saved.
fn not_saved(why: &dyn std::fmt::Display) -> Error {
    tracing::error!(error = %why, "an execution could not be saved");
    let message = "the code ran and its memory could not be saved, as a rule because the disk is \
                   full: the context is as it was before; files that the code wrote are written";
    Error::new(ErrorCode::ExecutionNotSaved, message).with("rolledBack", true)
}

fn no_context(id: &str) -> Error {
    let shown: String = id.chars().take(128).collect();
    Error::new(
        ErrorCode::ContextNotFound,
        format!("no context of this sandbox has the id {shown:?}"),
    )
    .with("contextId", shown)
}
