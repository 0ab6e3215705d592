//! What is known of a saved context: all but its pages, which lie in packs.

use crate::wasi::SavedFd;
use serde::{Deserialize, Serialize};

/// The saved state of a context. Others keep it as it is, and look at its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// How many executions were saved, this one included.
    pub seq: u64,
    /// SHA-256 of the original module, hex.
    pub wasm: String,
    /// BLAKE3 of the base image, hex.
    pub base: String,
    /// Size of the linear memory, bytes.
    pub memory_bytes: u64,
    /// The packs that make it of the base, oldest first.
    pub packs: Vec<PackRef>,
    /// Open files that are not as at first.
    pub fds: Vec<SavedFd>,
    /// The monotonic clock, ns.
    pub clock_ns: u64,
    /// Processor time that it took in all, ns.
    #[serde(default)]
    pub cpu_ns: u64,
    /// 64 KiB pages of the memory with a byte that is not zero.
    pub pages64k: u64,
    /// 1 MiB chunks that hold such a page.
    pub chunks1m: u64,
}

/// A pack of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackRef {
    /// Its file, in the context's directory.
    pub file: String,
    /// BLAKE3 of its contents, hex.
    pub hash: String,
    /// Pages that it changes.
    pub pages: u64,
    /// Its length, bytes.
    pub bytes: u64,
}

impl Snapshot {
    /// Whether both are the same state, whatever their packs are called.
    pub fn same_state(&self, other: &Snapshot) -> bool {
        let hashes = |of: &Snapshot| of.packs.iter().map(|p| p.hash.clone()).collect::<Vec<_>>();
        (self.seq, &self.wasm, &self.base) == (other.seq, &other.wasm, &other.base)
            && hashes(self) == hashes(other)
    }

    /// What its packs take on the disk, bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.packs.iter().map(|pack| pack.bytes).sum()
    }
}
