//! Who waits for room: one line for the server, first come, first served.
//!
//! Whoever is called tries, and keeps its place where there is still no room. A limit of one owner
//! holds up nobody of another; what the whole machine is short of holds up all behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use types::{Error, ErrorCode, Owner};

/// In the context of a refusal: it is for the sake of those who wait already.
pub(crate) const OTHERS: &str = "othersWait";
/// How many may wait at once; more are refused at once.
const MOST: usize = 256;
/// Room may come without anybody saying so: the first of the line looks at least this often.
const LOOK: Duration = Duration::from_millis(500);

struct Waiter {
    owner: Owner,
    /// Why it waits.
    error: Error,
    called: Arc<Notify>,
}

#[derive(Default)]
struct Line {
    next: u64,
    waiting: BTreeMap<u64, Waiter>,
}

/// The line. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Turns(Arc<Mutex<Line>>);

/// A place in the line; leaves it when dropped, and the next one is called.
pub(crate) struct Place {
    turns: Turns,
    number: u64,
    called: Arc<Notify>,
}

impl Turns {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes to the end of the line, because of `error`. `None`: the line is full.
    pub fn join(&self, owner: &Owner, error: &Error) -> Option<Place> {
        let mut line = self.line();
        if line.waiting.len() >= MOST {
            return None;
        }
        let number = line.next;
        line.next += 1;
        let called = Arc::new(Notify::new());
        let waiter = Waiter { owner: owner.clone(), error: error.clone(), called: called.clone() };
        line.waiting.insert(number, waiter);
        Some(Place { turns: self.clone(), number, called })
    }

    /// Why somebody of this owner who has no place may not try now: others wait for the same.
    pub fn before(&self, owner: &Owner) -> Option<Error> {
        let line = self.line();
        let mut waiting = line.waiting.values();
        let same = waiting.find(|w| w.owner == *owner || of_the_machine(&w.error));
        same.map(|waiter| waiter.error.clone().with(OTHERS, true))
    }

    /// There may be room again.
    pub fn freed(&self) {
        if let Some(first) = self.line().waiting.values().next() {
            first.called.notify_one();
        }
    }
}

fn of_the_machine(error: &Error) -> bool {
    error.context.get("scope").is_some_and(|scope| scope == "machine")
}

/// Whether waiting may help.
pub(crate) fn passes(error: &Error) -> bool {
    matches!(error.code, ErrorCode::QuotaExceeded | ErrorCode::MemoryShort) && error.retryable()
}

impl Place {
    /// It tried, and there is no room for it yet: who waits for something else is called.
    pub fn refused(&self, error: &Error) {
        let mut line = self.turns.line();
        if let Some(own) = line.waiting.get_mut(&self.number) {
            own.error = error.clone();
        }
        if !of_the_machine(error) {
            call_after(&line, self.number);
        }
    }

    /// Waits until it is called; `false`: not until then. Cancel-safe.
    pub async fn called(&self, until: Instant) -> bool {
        loop {
            tokio::select! {
                biased;
                () = self.called.notified() => return true,
                () = tokio::time::sleep_until(until) => return false,
                () = tokio::time::sleep(LOOK) => {}
            }
            if self.turns.line().waiting.keys().next() == Some(&self.number) {
                return true;
            }
        }
    }
}

/// Calls the next one behind that has nobody before it who waits for the same: else, where room comes
/// while the line is called through, it would go before that one.
fn call_after(line: &Line, number: u64) {
    let mut before = Vec::new();
    for (at, waiter) in &line.waiting {
        let same = (&waiter.owner, waiter.error.context.get("what"));
        if before.contains(&same) {
            continue;
        }
        if *at > number {
            waiter.called.notify_one();
            return;
        }
        before.push(same);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut line = self.turns.line();
        line.waiting.remove(&self.number);
        call_after(&line, self.number);
    }
}

#[cfg(test)]
mod tests;
