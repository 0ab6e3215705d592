//! Packs: pages of a context as they lie in a file.
//!
//! `docs/concepts/snapshots.md` has the format. A pack is taken whole or not at all: its last 32
//! bytes are a hash of everything before them, and nothing is looked at before they are right. Neither
//! who writes one nor who reads one ever has all of it in memory: contexts can be large.

mod read;
mod write;

pub use read::{Pack, apply, verify};
pub use write::{PART, Written, write};

use crate::pages::PAGE;

const MAGIC: &[u8; 8] = b"SANDPACK";
const VERSION: u32 = 5;
/// The oldest version that is read. It has no padding.
const OLDEST: u32 = 2;
/// The last version whose lists of pages stand before the pages' bytes.
const LISTED: u32 = 3;
/// The last version that compresses everything, and has words of 8 bytes.
const DOUBLE: u32 = 4;
/// A pack is padded to whole blocks of this size, bytes: so a file that is written over by the
/// next pack keeps its length most times, and its sync writes no inode.
pub(crate) const BLOCK: usize = 4096;
/// Fixed part at the beginning, bytes.
const HEADER: usize = 8 + 4 + 4 + 32 + 32 + 8 + 8;
/// Length of the part that pages' bytes are in: behind the header in older versions, before the
/// hash now.
const LENGTH: usize = 8;
/// A bit of that length which says that the part is not compressed.
const PLAIN: u64 = 1 << 63;
/// Hash at the end, bytes.
const HASH: usize = 32;
/// A bit for each of a page's words of 8 bytes, bytes.
const WHICH: usize = PAGE / 64;
/// Pieces of a page that are looked at one by one, bytes; a page has as many as a word has bits.
const LINE: usize = PAGE / 64;
/// Pages of a memory of 4 GiB; none has more.
const PAGES_MAX: u64 = (4 << 30) / PAGE as u64;

/// The build that a pack belongs to: hashes of the wasm module and of the base image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildId {
    /// SHA-256 of the module as its package holds it.
    pub wasm: [u8; 32],
    /// BLAKE3 of the base image.
    pub base: [u8; 32],
}

/// Why a pack is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// It cannot be read.
    #[error("the pack cannot be read: {0}")]
    Read(String),
    /// It is not a pack, or one that was cut.
    #[error("the pack is cut short: it has {0} bytes")]
    Short(u64),
    /// Its bytes are not those that were written.
    #[error("the pack is damaged: its bytes do not have the hash that was recorded")]
    Damaged,
    /// It is of another version of the format.
    #[error("the pack has version {0} of the format; this program reads version {VERSION}")]
    Version(u32),
    /// It belongs to another interpreter.
    #[error("the pack belongs to another build of the interpreter")]
    OtherBuild,
    /// It is whole, but says what cannot be.
    #[error("the pack contradicts itself: {0}")]
    Invalid(&'static str),
}

/// What a pack says of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its bytes follow.
    Data,
    /// It is all zeros.
    Zero,
    /// It is as in the base again, whatever older packs say.
    Base,
    /// Which of its words of 4 bytes are other than the base's follows, and those. Most pages that
    /// an interpreter touches change in a few counters, and are nearly nothing then.
    Words,
    /// The same of words of 8 bytes, as versions up to 4 have it.
    Double,
}

impl Change {
    fn code(self) -> u32 {
        match self {
            Change::Data => 0,
            Change::Zero => 1,
            Change::Base => 2,
            Change::Words | Change::Double => 3,
        }
    }
}

#[cfg(test)]
mod tests;
