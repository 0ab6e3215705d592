//! What is kept of a context beside its packs.

use crate::pack::{BLOCK, PackError};
use crate::wasi::SavedFd;
use serde::{Deserialize, Serialize};
use std::io::{Read, Seek};

/// What is kept of a context: which packs, over which base, and what is not memory. It is one
/// text in the context's record, and changes as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// How many snapshots the context has had, this one included.
    pub seq: u64,
    /// SHA-256 of the wasm module, hex.
    pub wasm: String,
    /// BLAKE3 of the base image, hex.
    pub base: String,
    /// Size of the linear memory, bytes.
    pub memory_bytes: u64,
    /// Its packs, oldest first.
    pub packs: Vec<PackRef>,
    /// Its open files.
    pub fds: Vec<SavedFd>,
    /// Its monotonic clock, ns.
    pub clock_ns: u64,
    /// Processor time that it has taken in its whole life, ns.
    #[serde(default)]
    pub cpu_ns: u64,
    /// Pages of 64 KiB with a byte that is not zero.
    pub pages64k: u64,
    /// Chunks of 1 MiB with such a page.
    pub chunks1m: u64,
}

impl Snapshot {
    /// Whether both are the same state, whatever their packs are called.
    pub fn same_state(&self, other: &Snapshot) -> bool {
        let packs = |of: &Snapshot| of.packs.iter().map(|p| p.hash.clone()).collect::<Vec<_>>();
        let plain = |of: &Snapshot| Snapshot { packs: Vec::new(), ..of.clone() };
        packs(self) == packs(other) && plain(self) == plain(other)
    }

    /// What its packs take on the disk, bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.packs.iter().map(PackRef::disk_bytes).sum()
    }
}

/// A pack of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackRef {
    /// Its file's name. A file that no snapshot names any more may be written over by a later
    /// pack, under the same name: only the hash tells them apart.
    pub file: String,
    /// Its hash, hex.
    pub hash: String,
    /// How many pages it speaks of.
    pub pages: u64,
    /// The file's size, bytes.
    pub bytes: u64,
}

impl PackRef {
    /// Checks its file, from beginning to end.
    ///
    /// # Errors
    /// What is wrong with it. [`PackError::Read`]: nobody knows.
    pub fn check(&self, file: &mut (impl Read + Seek)) -> Result<(), PackError> {
        let hash = crate::build::unhex(&self.hash).map_err(|_| PackError::Damaged)?;
        crate::pack::verify(file, &hash).map(drop)
    }

    /// What it takes on the disk, bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.bytes.next_multiple_of(BLOCK as u64)
    }
}

/// A snapshot that was taken, and is not kept yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSnapshot {
    /// What to keep in the record.
    pub snapshot: Snapshot,
    /// The pack to write before, if there is a new one: the last of `snapshot.packs`. What was given
    /// to [`crate::Instance::snapshot_in_parts`] as parts is not in it.
    pub pack: Option<Vec<u8>>,
}

/// What is known of a base image, kept beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BaseMeta {
    /// SHA-256 of the wasm module as its package holds it, hex.
    pub wasm: String,
    /// BLAKE3 of the image, hex.
    pub base: String,
    /// Size of the memory, bytes.
    pub memory_bytes: u64,
    /// Size of the module's own stack, with which the memory begins, bytes. Between executions
    /// nothing is on it.
    #[serde(default)]
    pub stack: u64,
    /// Which of its pages are not zero: see [`crate::pages::NonZero::to_hex`].
    pub non_zero: String,
    /// Files that were open.
    pub fds: Vec<SavedFd>,
    /// Its monotonic clock, ns.
    pub clock_ns: u64,
    /// What the driver needs to find itself again.
    pub handles: serde_json::Value,
}
