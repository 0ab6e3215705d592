//! What an interpreter that starts is told in place of what differs between machines and times, so
//! that the same module leaves the same memory everywhere: a base made anew is the base that was.

use super::fds::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// When it starts and when its files were made: the first of January 2026, ns since the epoch.
pub(crate) const BEGAN: u64 = 1_767_225_600_000_000_000;
/// How much later it is whenever it asks, ns.
const STEP: u64 = 1_000;

/// Clocks and random numbers that are always the same ones.
#[derive(Debug, Default)]
pub(crate) struct Fixed(AtomicU64);

impl Fixed {
    fn asked(&self) -> u64 {
        self.0.fetch_add(1, Relaxed) + 1
    }

    /// Time since it started, ns.
    pub fn time(&self) -> u64 {
        self.asked() * STEP
    }

    /// Bytes that look random. Whoever needs others asks again when it runs code.
    pub fn random(&self, out: &mut [u8]) {
        let mut hasher = blake3::Hasher::new_derive_key("sandkeep 2026 random of a base");
        hasher.update(&self.asked().to_le_bytes());
        hasher.finalize_xof().fill(out);
    }
}

/// An inode number by what a file is called.
pub(crate) fn ino(at: &Location) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(at.place as u64).to_le_bytes()).update(&at.path);
    let mut number = [0; 8];
    hasher.finalize_xof().fill(&mut number);
    // Small enough for whoever keeps it as a signed number, and none of the made-up ones.
    (u64::from_le_bytes(number) >> 2) | 1 << 61
}
