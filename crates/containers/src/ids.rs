//! The pool of uid and gid ranges: each running instance has 65 536 ids of its own.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Ids of one instance.
pub(crate) const COUNT: u32 = 65_536;
/// Ids from here on are not handed out: the top two ranges hold the kernel's "no id".
const END: u32 = u32::MAX - 2 * COUNT;

/// The pool.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Mutex<State>>);

struct State {
    start: u32,
    next: u32,
    taken: BTreeSet<u32>,
    /// First id and count of ranges that belong to others.
    foreign: Vec<(u32, u32)>,
}

/// A range in use; goes back into the pool when dropped.
pub(crate) struct Range {
    base: u32,
    pool: Pool,
}

impl Range {
    /// Its first id.
    pub fn base(&self) -> u32 {
        self.base
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        self.pool.0.lock().unwrap_or_else(PoisonError::into_inner).taken.remove(&self.base);
    }
}

impl Pool {
    /// Ranges from `start` on, without those that `subids` (text of /etc/subuid and
    /// /etc/subgid, one after the other) gives to users of the machine.
    pub fn new(start: u32, subids: &str) -> Self {
        let foreign = subids.lines().filter_map(|line| {
            let mut fields = line.trim().rsplitn(3, ':');
            let count = fields.next()?.parse().ok()?;
            Some((fields.next()?.parse().ok()?, count))
        });
        let foreign = foreign.collect();
        Self(Arc::new(Mutex::new(State { start, next: start, taken: BTreeSet::new(), foreign })))
    }

    /// A range that nobody uses; `None` when there is none. Ranges are given out in turn, so
    /// that one just given back rests the longest.
    pub fn take(&self) -> Option<Range> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tries = END.saturating_sub(state.start) / COUNT;
        for _ in 0..tries {
            let base = state.next;
            let after = base.saturating_add(COUNT);
            state.next = if after > END - COUNT { state.start } else { after };
            if !state.overlaps(base) {
                state.taken.insert(base);
                return Some(Range { base, pool: self.clone() });
            }
        }
        None
    }

    /// Marks the range of an adopted instance as used.
    pub fn adopt(&self, base: u32) -> Range {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).taken.insert(base);
        Range { base, pool: self.clone() }
    }
}

impl State {
    fn overlaps(&self, base: u32) -> bool {
        let meets = |start: u32, count: u32| {
            u64::from(base) < u64::from(start) + u64::from(count)
                && u64::from(start) < u64::from(base) + u64::from(COUNT)
        };
        // A range adopted from another base may straddle two of ours.
        let near = base.saturating_sub(COUNT - 1)..=base.saturating_add(COUNT - 1);
        self.taken.range(near).next().is_some()
            || self.foreign.iter().any(|&(start, count)| meets(start, count))
    }
}

#[cfg(test)]
mod tests;
