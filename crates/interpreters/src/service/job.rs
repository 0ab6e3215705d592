//! What is asked of a worker, and what it answers.

use super::packs::{NewPack, PackDir};
use crate::Snapshot;
use crate::engines::EngineBuild;
use crate::wasi::Room;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{CodeError, RichResult, Stream, Usage};

/// An execution.
#[derive(Debug)]
pub struct Job {
    /// The context's id; one of its own for an execution without a context. Executions of one
    /// key run one after the other.
    pub key: String,
    /// The engine that the context is made of.
    pub build: EngineBuild,
    /// The state to go on from; `None`: a fresh context. What is warm counts only where it is
    /// this state.
    pub snapshot: Option<Snapshot>,
    /// Where the context's packs are; [`PackDir::none`] where nothing is saved.
    pub packs: PackDir,
    /// A file among them that nothing names any more: the new pack may be written over it. Whatever
    /// comes of the execution, it is not to be used for another.
    pub spare: Option<String>,
    /// The code.
    pub code: String,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// The working directory.
    pub cwd: String,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// Stop after this long.
    pub timeout: Duration,
    /// Largest linear memory, bytes.
    pub memory_bytes: u64,
    /// Output that is kept, bytes.
    pub output_max: usize,
    /// Whether the context lives on; otherwise nothing is saved.
    pub keep: bool,
    /// What the workspace may still grow by.
    pub room: Room,
}

/// What an execution tells while it runs, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A piece of output. Never cut inside a UTF-8 character.
    Output {
        /// Which stream.
        stream: Stream,
        /// The bytes.
        bytes: Vec<u8>,
        /// When it was written, ms since the epoch.
        at: i64,
    },
    /// A displayed result.
    Result(RichResult),
}

/// The end of an execution.
#[derive(Debug)]
pub struct Done {
    /// The value of the last expression.
    pub result: Option<RichResult>,
    /// Why it failed: the guest's error, or a limit.
    pub error: Option<CodeError>,
    /// The working directory afterwards.
    pub cwd: String,
    /// What it took.
    pub usage: Usage,
    /// Output was dropped.
    pub truncated: bool,
    /// The memory is as before.
    pub rolled_back: bool,
    /// What is to be committed; `None`: nothing changed, or nothing is kept.
    pub saved: Option<Saved>,
    /// How long finding, packing and syncing what changed took, ms.
    pub snapshot_ms: u64,
    /// How long bringing the context's memory back took, its packs fetched and checked, µs;
    /// `None`: it was there still, or never saved.
    pub restored_us: Option<u64>,
    /// What is left of the room in the workspace.
    pub room: Room,
}

/// A state that is on the disk, and is the context's as soon as somebody records it.
#[derive(Debug)]
pub struct Saved {
    /// What to record.
    pub snapshot: Snapshot,
    /// The pack that was written for it. Dropping it removes the file: [`NewPack::keep`] it once
    /// the snapshot is recorded.
    pub pack: Option<NewPack>,
}
