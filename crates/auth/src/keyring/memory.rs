//! What is remembered of tokens that were recognised, so that few requests ask the store.

use crate::secret::Digest;
use std::collections::HashMap;
use store::TokenRow;
use types::Grant;

/// Most tokens remembered; then all are forgotten and asked for anew.
const TOKENS: usize = 16_384;
/// A token's use is noted at most once in so many ms.
const NOTE_EVERY: i64 = 60_000;

struct Known {
    id: String,
    grant: Grant,
    expires_at: Option<i64>,
    noted: i64,
}

#[derive(Default)]
pub(super) struct Memory {
    known: HashMap<Digest, Known>,
    /// Grows with every revocation: what was read before one may be older than it.
    age: u64,
    used: HashMap<String, i64>,
}

impl Memory {
    pub(super) fn age(&self) -> u64 {
        self.age
    }

    /// Who bears it, and whether its use was noted; `None`: not remembered, or over.
    pub(super) fn get(&mut self, digest: &Digest, now: i64) -> Option<(Grant, bool)> {
        let known = self.known.get_mut(digest)?;
        if known.expires_at.is_some_and(|end| now >= end) {
            self.known.remove(digest);
            return None;
        }
        // Also after a clock that was set back.
        let due = now.abs_diff(known.noted) >= NOTE_EVERY.unsigned_abs();
        if due {
            known.noted = now;
            self.used.insert(known.id.clone(), now);
        }
        Some((known.grant.clone(), due))
    }

    /// Whether it is remembered, expired or not.
    pub(super) fn knows(&self, digest: &Digest) -> bool {
        self.known.contains_key(digest)
    }

    /// Remembers a token that was read at `age`, and that it was used.
    pub(super) fn put(&mut self, age: u64, row: TokenRow, now: i64) {
        self.used.insert(row.id.clone(), now);
        if age != self.age {
            return;
        }
        if self.known.len() >= TOKENS {
            self.known.clear();
        }
        let TokenRow { id, digest, grant, expires_at, .. } = row;
        self.known.insert(digest, Known { id, grant, expires_at, noted: now });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn forget(&mut self, digest: &Digest) {
        self.age += 1;
        self.known.remove(digest);
    }

    pub(super) fn take_used(&mut self) -> Vec<(String, i64)> {
        self.used.drain().collect()
    }
}
