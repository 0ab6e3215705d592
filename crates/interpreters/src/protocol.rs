//! What server, zygote and worker say to each other.
//!
//! Server and zygote: one JSON text a packet ([`spawner::channel`]). Server and worker: frames
//! ([`crate::frames`]), whose header is one of these as JSON and whose body is raw bytes. All of
//! them are the same program, so there are no versions.

use crate::Snapshot;
use crate::engines::EngineBuild;
use crate::wasi::Room;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use types::{CodeError, RichResult, Stream, Usage};

/// Server to zygote.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum ToZygote {
    /// First of all: maps these. Answer: `Loaded`.
    Load {
        /// Where the engine cache is.
        cache: PathBuf,
        /// What is in it that runs here.
        builds: Vec<EngineBuild>,
        /// Bytes of warm contexts that each worker keeps.
        warm_bytes: u64,
    },
    /// Forks a worker. Beside it: the worker's socket, `/workspace`. Answer: `Forked` or
    /// `ForkFailed`.
    Fork {
        /// First of its 65 536 host ids.
        ids: Option<u32>,
    },
}

/// Zygote to server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum FromZygote {
    /// What could not be mapped: names of builds and why.
    Loaded {
        /// [`EngineBuild::build`] and what is wrong with it.
        broken: Vec<(String, String)>,
    },
    /// Beside it: the worker's pidfd.
    Forked {
        /// Its process id.
        pid: i32,
    },
    /// Nothing of it is left.
    ForkFailed {
        /// What went wrong.
        text: String,
    },
}

/// Server to worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum ToWorker {
    /// Runs code. Body: standard input. Answers: `Need`, `Output`, `Shown`, `Part`, at last `Done`
    /// or `Failed`.
    Execute(Box<Execute>),
    /// Packs that were needed, in the snapshot's order, as descriptors beside the frame.
    Packs {
        /// The execution.
        id: u64,
        /// How many are beside this frame.
        count: usize,
        /// Whether more follow.
        more: bool,
    },
    /// A part of a new pack was written: the next one may come.
    Written {
        /// The execution.
        id: u64,
    },
    /// Stops an execution; no answer is wanted any more.
    Cancel {
        /// The execution.
        id: u64,
    },
    /// Drops what is warm of a context.
    Forget {
        /// The context.
        key: String,
    },
}

/// An execution.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Execute {
    pub id: u64,
    pub key: String,
    pub build: EngineBuild,
    pub snapshot: Option<Snapshot>,
    /// Its packs come without being asked for: the worker is not believed to have it.
    pub packs: bool,
    pub code: String,
    pub env: BTreeMap<String, String>,
    pub cwd: String,
    pub timeout_ms: u64,
    pub memory_bytes: u64,
    pub output_max: usize,
    pub keep: bool,
    pub room: Room,
}

/// Worker to server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum FromWorker {
    /// The jail is closed and executions may come.
    Ready,
    /// The jail could not be closed; the worker ends.
    Broken {
        /// Which step failed.
        text: String,
    },
    /// The packs of the execution's snapshot are wanted.
    Need {
        /// The execution.
        id: u64,
    },
    /// Body: a piece of output.
    Output {
        /// The execution.
        id: u64,
        /// Which stream.
        stream: Stream,
        /// When it was written, ms since the epoch.
        at: i64,
    },
    /// A displayed result.
    Shown {
        /// The execution.
        id: u64,
        /// The result.
        result: Box<RichResult>,
    },
    /// Body: a part of the new pack, where it is large. The next one waits for `Written`.
    Part {
        /// The execution.
        id: u64,
    },
    /// The end. Body: the new pack, where there is one; of a large one, its last part.
    Done {
        /// The execution.
        id: u64,
        /// How it ended.
        end: Box<End>,
    },
    /// The execution was not possible; nothing ran.
    Failed {
        /// The execution.
        id: u64,
        /// Why.
        failure: Failure,
    },
}

/// How an execution ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct End {
    pub result: Option<RichResult>,
    pub error: Option<CodeError>,
    pub cwd: String,
    pub usage: Usage,
    pub truncated: bool,
    pub rolled_back: bool,
    /// What is to be committed; its last pack has no name yet where `pack` says that there is a
    /// new one.
    pub snapshot: Option<Snapshot>,
    pub pack: bool,
    pub snapshot_ms: u64,
    /// How long making the context anew from its snapshot took, where it was not warm.
    pub restored_us: Option<u64>,
    /// What is left of the room in the workspace.
    pub room: Room,
    /// What all warm contexts of the worker take, bytes.
    pub warm_bytes: u64,
}

/// Why an execution was not possible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Failure {
    /// The worker has not mapped this build, or cannot open what belongs to it. Nothing ran.
    UnknownBuild,
    /// A pack is not what was written.
    Pack {
        /// Its file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// Anything else.
    Other {
        /// What.
        text: String,
    },
}
