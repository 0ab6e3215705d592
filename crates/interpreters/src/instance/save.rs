//! Taking a snapshot.

use super::{Instance, Saved, Written};
use crate::build::hex;
use crate::pages::{self, Content, PAGE, PageIndex};
use crate::{InstanceError, NewSnapshot, PackRef, Snapshot, pack};
use std::io;

/// So many pages may be written in vain however few there are in all.
const SLACK: usize = 256;

impl Instance {
    /// Takes a snapshot of the state that it is in, its pack in memory whole. The next one is
    /// compared with this one: if this one is not kept, the instance is to be dropped.
    ///
    /// # Errors
    /// [`InstanceError::NotAtRest`], also of a dead instance; [`InstanceError::Write`].
    pub fn snapshot(&mut self) -> Result<NewSnapshot, InstanceError> {
        let mut whole = Vec::new();
        let mut new = self.snapshot_in_parts(&mut |mut part| {
            whole.append(&mut part);
            Ok(())
        })?;
        if let Some(pack) = new.pack.take() {
            whole.extend(pack);
            new.pack = Some(whole);
        }
        Ok(new)
    }

    /// The same, where a large pack is given to `parts` piece by piece, [`pack::PART`] bytes
    /// each, while it is made: only the last is in what comes back.
    ///
    /// # Errors
    /// As [`Instance::snapshot`], and those of `parts`; the instance is then to be dropped.
    pub fn snapshot_in_parts(
        &mut self,
        parts: &mut dyn FnMut(Vec<u8>) -> io::Result<()>,
    ) -> Result<NewSnapshot, InstanceError> {
        if self.dead {
            return Err(InstanceError::NotAtRest("it was stopped".into()));
        }
        self.rest.check(&self.build.linked, &mut self.live)?;
        let memory = self.live.memory.data(&self.live.store);
        let before = self.saved.as_mut().and_then(|saved| saved.written.take());
        let written = match before {
            // Looking at the whole map takes longer than a small step.
            Some(before) if self.runtime.pages.faults() == Some(before.faults) => before.pages,
            _ => self.runtime.pages.written(memory),
        };
        // The stack is empty: nobody reads again what is left of what was on it.
        let end = (self.build.meta.stack / PAGE as u64) as PageIndex;
        let (left, rest) = written.split_at(written.partition_point(|page| *page < end));
        self.build.image.reset(self.live.memory.data_mut(&mut self.live.store), left);
        let memory = self.live.memory.data(&self.live.store);
        let (before, known, lists) = match &self.saved {
            Some(saved) => (saved.pages.as_slice(), &*saved.snapshot.packs, &*saved.packs),
            None => (&[][..], &[][..], &[][..]),
        };
        let now = pages::diff(memory, self.build.image.bytes(), rest, before);
        let (keep, list) = plan(changes(before, &now), now.len(), lists);
        let (list, content) = match keep {
            0 => (now.iter().map(|(index, _)| *index).collect(), select(&now, None)),
            _ => {
                let content = select(&now, Some(&list));
                (list, content)
            }
        };

        let seq = self.saved.as_ref().map_or(0, |saved| saved.snapshot.seq) + 1;
        let mut packs = known[..keep].to_vec();
        let mut lists = lists[..keep].to_vec();
        // Nothing to say: nothing is written.
        let pack = if content.is_empty() {
            None
        } else {
            let base = self.build.image.bytes();
            let written = pack::write(&self.build.id, seq, memory, base, &content, parts)?;
            let hash = hex(&written.hash);
            packs.push(PackRef {
                file: format!("{seq:06}-{}.pack", &hash[..16]),
                hash,
                pages: content.len() as u64,
                bytes: written.bytes,
            });
            lists.push(list);
            Some(written.rest)
        };
        let wasi = &self.live.store.data().wasi;
        let (pages64k, chunks1m) = self.build.non_zero.count(&now);
        let snapshot = Snapshot {
            seq,
            wasm: self.build.meta.wasm.clone(),
            base: self.build.meta.base.clone(),
            memory_bytes: memory.len() as u64,
            packs,
            fds: wasi.save(),
            clock_ns: wasi.clocks.monotonic(),
            cpu_ns: wasi.clocks.cpu_total(),
            pages64k,
            chunks1m,
        };
        self.moved = false;
        // Asked now: from here on nobody writes to this memory but the next execution.
        let faults = self.runtime.pages.faults();
        let written = faults.map(|faults| Written { pages: written, faults });
        self.saved = Some(Saved { snapshot: snapshot.clone(), pages: now, packs: lists, written });
        Ok(NewSnapshot { snapshot, pack })
    }
}

/// Pages whose content is another one than before, in order; both lists are.
fn changes(before: &[(PageIndex, Content)], now: &[(PageIndex, Content)]) -> Vec<PageIndex> {
    let (mut old, mut new) = (before.iter().peekable(), now.iter().peekable());
    let mut changed = Vec::new();
    loop {
        match (old.peek(), new.peek()) {
            (None, None) => return changed,
            (Some((a, x)), Some((b, y))) if a == b => {
                if x != y {
                    changed.push(*a);
                }
                old.next();
                new.next();
            }
            (Some((a, _)), Some((b, _))) if a < b => {
                changed.push(*a);
                old.next();
            }
            (Some((a, _)), None) => {
                changed.push(*a);
                old.next();
            }
            (_, Some((b, _))) => {
                changed.push(*b);
                new.next();
            }
        }
    }
}

/// How many of the packs stay, and which pages the new one has, where one stays: those that changed,
/// and those of the packs that do not. Sizes halve from pack to pack, so that there are few; the oldest may be only
/// little larger than the next, so that executions that change half of a context do not write it whole
/// each time. What packs hold in vain is less than what they hold.
fn plan(changed: Vec<PageIndex>, live: usize, packs: &[Vec<PageIndex>]) -> (usize, Vec<PageIndex>) {
    let total: usize = packs.iter().map(Vec::len).sum();
    if total + changed.len() > 2 * live + SLACK {
        return (0, Vec::new());
    }
    let (mut keep, mut list) = (packs.len(), changed);
    let most = |keep: usize, len: usize| if keep > 1 { 2 * len } else { len };
    while keep > 0 && !list.is_empty() && packs[keep - 1].len() <= most(keep, list.len()) {
        keep -= 1;
        list = union(&packs[keep], &list);
    }
    (keep, list)
}

/// What is in either list; all are in order.
fn union(a: &[PageIndex], b: &[PageIndex]) -> Vec<PageIndex> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    all
}

/// What to write of these pages (all that differ from the base without a list), in order.
fn select(
    now: &[(PageIndex, Content)],
    list: Option<&[PageIndex]>,
) -> Vec<(PageIndex, Option<Content>)> {
    let Some(list) = list else {
        return now.iter().map(|(index, content)| (*index, Some(*content))).collect();
    };
    let find = |index: &PageIndex| {
        let found = now.binary_search_by_key(index, |(index, _)| *index).ok();
        (*index, found.map(|at| now[at].1))
    };
    list.iter().map(find).collect()
}

#[cfg(test)]
mod tests;
