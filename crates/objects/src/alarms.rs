//! The alarm clock: one alarm per object, at least once, never early.
//!
//! The rows in the store are the truth; this task holds them in monotonic time, so that a jump
//! of the wall clock neither hurries nor delays them. An alarm stays in the store until its
//! handler sets the next one or clears it: what a crash interrupts fires again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use types::ObjectId;

/// Longest sleep of the clock: after this it looks whether it was stopped meanwhile. By as much
/// a gap may be longer than it is seen to be.
const TICK: Duration = Duration::from_millis(250);
/// What is late by less is no gap.
const HICCUP: Duration = Duration::from_millis(50);
/// For so long a shorter gap does not take the place of a longer one.
const RECENT: Duration = Duration::from_secs(5);

/// The last time that this process did not run, or its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// When it went on.
    pub ended: Instant,
    /// How long it was; a start counts as endless.
    pub length: Duration,
}

enum Change {
    Set(ObjectId, Instant),
    Clear(ObjectId),
}

/// Sets and clears alarms. What is set here must be in the store already.
#[derive(Clone)]
pub struct AlarmHandle {
    changes: mpsc::UnboundedSender<Change>,
    gap: Arc<watch::Sender<Gap>>,
}

impl AlarmHandle {
    /// Sets the object's one alarm, in place of an earlier one.
    pub fn set(&self, id: ObjectId, at: Instant) {
        // A clock that is gone means that the server ends; the store has the alarm.
        let _ = self.changes.send(Change::Set(id, at));
    }

    /// Clears the object's alarm.
    pub fn clear(&self, id: ObjectId) {
        let _ = self.changes.send(Change::Clear(id));
    }

    /// The last gap.
    pub fn gap(&self) -> Gap {
        *self.gap.borrow()
    }

    /// From now on alarms may fire: what went before counts as one endless gap.
    pub(crate) fn began(&self) {
        self.gap.send_replace(Gap { ended: Instant::now(), length: Duration::MAX });
    }
}

/// Starts the clock; `fire` is called for each alarm that is due.
pub(crate) fn start(mut fire: impl FnMut(ObjectId) + Send + 'static) -> AlarmHandle {
    let (changes, mut inbox) = mpsc::unbounded_channel();
    let started = Gap { ended: Instant::now(), length: Duration::MAX };
    let gap = Arc::new(watch::Sender::new(started));
    let seen = gap.clone();
    tokio::spawn(async move {
        let mut due = Due::default();
        let mut wake = Instant::now() + TICK;
        loop {
            tokio::select! {
                biased;
                change = inbox.recv() => match change {
                    None => return,
                    Some(Change::Set(id, at)) => due.set(id, at),
                    Some(Change::Clear(id)) => due.clear(id),
                },
                () = sleep_until(wake) => {}
            }
            let now = Instant::now();
            // Also where a change came first: the gap is known before anything of it fires.
            seen.send_if_modified(|last| note(last, wake, now));
            while let Some(id) = due.take(now) {
                fire(id);
            }
            let tick = now + TICK;
            wake = due.next().map_or(tick, |at| at.min(tick));
        }
    });
    AlarmHandle { changes, gap }
}

/// Notes that the clock, which meant to wake at `wake`, runs only now.
fn note(last: &mut Gap, wake: Instant, now: Instant) -> bool {
    let length = now.saturating_duration_since(wake);
    let hidden = length < last.length && now.saturating_duration_since(last.ended) < RECENT;
    if length <= HICCUP || (hidden && length < TICK * 4) {
        return false;
    }
    // One that follows soon makes the longer one longer.
    let length = if hidden { last.length } else { length };
    *last = Gap { ended: now, length };
    true
}

#[derive(Default)]
struct Due {
    order: BTreeSet<(Instant, ObjectId)>,
    at: HashMap<ObjectId, Instant>,
}

impl Due {
    fn set(&mut self, id: ObjectId, at: Instant) {
        self.clear(id);
        self.order.insert((at, id));
        self.at.insert(id, at);
    }
    fn clear(&mut self, id: ObjectId) {
        if let Some(at) = self.at.remove(&id) {
            self.order.remove(&(at, id));
        }
    }
    fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }
    fn take(&mut self, now: Instant) -> Option<ObjectId> {
        let (at, id) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.clear(id);
        Some(id)
    }
}

#[cfg(test)]
mod tests;
