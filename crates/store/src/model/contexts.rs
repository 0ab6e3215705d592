//! Code contexts, as callers of the store see them.

use std::collections::BTreeMap;
use types::{Language, ObjectId};

/// The saved memory of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRow {
    /// Hash of the engine's module.
    pub wasm: String,
    /// Hash of the engine's base image.
    pub base: String,
    /// When it was taken, ms since the epoch.
    pub taken_at: i64,
    /// What the interpreters make of it; the store does not look inside.
    pub manifest: String,
}

/// A code context as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextRow {
    /// Its id, unique for ever.
    pub id: String,
    /// The binding that it was made with.
    pub binding: String,
    /// Its language.
    pub language: Language,
    /// The engine's name.
    pub engine: String,
    /// The interpreter and its version, for people.
    pub version: String,
    /// Its working directory.
    pub cwd: String,
    /// Its variables, over the sandbox's.
    pub env_vars: BTreeMap<String, String>,
    /// When it was made, ms since the epoch.
    pub created_at: i64,
    /// When it last ran code, ms since the epoch.
    pub last_used: i64,
    /// How many executions were saved.
    pub executions: u64,
    /// The last execution could not be saved.
    pub stale: bool,
    /// Its memory; `None` before the first execution.
    pub snapshot: Option<SnapshotRow>,
}

/// What an execution, or a rollback, leaves of a context: saved in one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextState {
    /// The interpreter and its version, for people.
    pub version: String,
    /// Its working directory.
    pub cwd: String,
    /// How many executions were saved, this one included.
    pub executions: u64,
    /// Its memory.
    pub snapshot: Option<SnapshotRow>,
    /// When it last ran code, ms since the epoch.
    pub last_used: i64,
}

/// A pack that was written for a [`ContextState`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenPack {
    /// Its file.
    pub file: String,
    /// Its hash.
    pub hash: String,
    /// Boot id of the kernel that has the file.
    pub boot: String,
    /// What is in it, where the file was not synced: kept beside the context until it is. `None`:
    /// it was.
    pub bytes: Option<Vec<u8>>,
}

/// A pack whose file may not be on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreshPack {
    /// The sandbox.
    pub object: ObjectId,
    /// The context's id.
    pub context: String,
    /// Its file.
    pub file: String,
    /// Its hash.
    pub hash: String,
    /// Boot id of the kernel that has, or had, the file; empty: none has.
    pub boot: String,
}

/// A state of a context to go back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRow {
    /// Its name, unique in its context.
    pub name: String,
    /// When it was made, ms since the epoch.
    pub created_at: i64,
    /// The interpreter and its version, for people.
    pub version: String,
    /// The context's working directory.
    pub cwd: String,
    /// Executions of the context up to it.
    pub executions: u64,
    /// The context's memory; `None`: it had run nothing.
    pub snapshot: Option<SnapshotRow>,
}
