//! The loop of one endpoint.

use crate::endpoint::Endpoint;
use crate::send::{self, Failure};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::Store;
use tokio::sync::Notify;
use types::{Event, WebhookInfo};

/// The first wait after a failure, doubled up to the second; each is cut by up to a half, by
/// chance.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(300));
/// An event that is older than this, and was tried and failed, is given up.
const GIVE_UP: i64 = 24 * 3_600_000;
/// Events that are read at once.
const PIECE: u32 = 100;
/// Where nothing fits, the cursor is stored once it is so far behind.
const IDLE_STEPS: i64 = 10_000;

/// An endpoint, and how it does.
pub(crate) struct Shared {
    pub endpoint: Endpoint,
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// All up to this one were delivered, given up, or not wanted.
    cursor: i64,
    rewound: bool,
    delivered: u64,
    given_up: u64,
    /// Failures of the present event.
    attempts: u32,
    failing_since: Option<i64>,
    last_error: Option<String>,
    last_delivered_at: Option<i64>,
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Shared {
    pub fn new(endpoint: Endpoint, cursor: i64) -> Self {
        let state = Mutex::new(State { cursor, ..State::default() });
        Self { endpoint, state, wake: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes back, or forth, to behind `after`, and tries at once.
    pub fn rewind(&self, after: i64) {
        let mut state = self.state();
        state.cursor = after;
        state.rewound = true;
        drop(state);
        self.wake.notify_one();
    }

    pub fn info(&self, newest: i64) -> WebhookInfo {
        let state = self.state();
        WebhookInfo {
            name: self.endpoint.name.clone(),
            url: self.endpoint.shown(),
            types: self.endpoint.of_types().to_vec(),
            owner: self.endpoint.of_owner().cloned(),
            cursor: state.cursor,
            behind: newest.saturating_sub(state.cursor).max(0).cast_unsigned(),
            delivered: state.delivered,
            given_up: state.given_up,
            attempts: state.attempts,
            failing_since: state.failing_since,
            last_error: state.last_error.clone(),
            last_delivered_at: state.last_delivered_at,
        }
    }

    fn cursor(&self) -> i64 {
        let mut state = self.state();
        state.rewound = false;
        state.cursor
    }

    /// Whether somebody set the cursor since it was last read.
    fn is_rewound(&self) -> bool {
        self.state().rewound
    }

    fn delivered(&self, id: i64) {
        let mut state = self.state();
        state.delivered += 1;
        state.attempts = 0;
        state.failing_since = None;
        state.last_error = None;
        state.last_delivered_at = Some(now_ms());
        if !state.rewound {
            state.cursor = id;
        }
    }

    /// Answers how often the present event has failed.
    fn failed(&self, failure: &Failure) -> u32 {
        let mut state = self.state();
        state.attempts += 1;
        state.failing_since.get_or_insert_with(now_ms);
        state.last_error = Some(failure.to_string());
        state.attempts
    }

    fn gave_up(&self, id: i64) {
        let mut state = self.state();
        state.given_up += 1;
        state.attempts = 0;
        if !state.rewound {
            state.cursor = id;
        }
    }

    fn passed(&self, id: i64) {
        let mut state = self.state();
        if !state.rewound {
            state.cursor = id;
        }
    }
}

/// Sends what there is and what comes, until the store is closed.
pub(crate) async fn run(store: Store, shared: std::sync::Arc<Shared>) {
    let name = shared.endpoint.name.clone();
    let mut newest = store.newest_event();
    let mut stored = shared.cursor();
    loop {
        newest.borrow_and_update();
        let rewound = shared.is_rewound();
        let cursor = shared.cursor();
        if rewound {
            if !keep(&store, &name, cursor).await {
                return;
            }
            stored = cursor;
        }
        let page = match store.events(&shared.endpoint.filter(), Some(cursor), PIECE).await {
            Ok(page) => page,
            Err(store::Error::Closed) => return,
            Err(error) => {
                tracing::error!(webhook = name, %error, "the events could not be read");
                tokio::time::sleep(BACK_OFF.0).await;
                continue;
            }
        };
        if page.missed {
            tracing::error!(
                webhook = name,
                after = cursor,
                "events were not delivered and are not kept any more"
            );
        }
        for event in &page.events {
            deliver(&shared, event).await;
            if shared.is_rewound() {
                break;
            }
            if !keep(&store, &name, event.id).await {
                return;
            }
            stored = event.id;
        }
        if shared.is_rewound() {
            continue;
        }
        shared.passed(page.next_after);
        if page.next_after - stored >= IDLE_STEPS {
            if !keep(&store, &name, page.next_after).await {
                return;
            }
            stored = page.next_after;
        }
        if page.more {
            continue;
        }
        tokio::select! {
            changed = newest.changed() => if changed.is_err() { return },
            () = shared.wake.notified() => {}
        }
    }
}

/// Tries until it is delivered, given up, or somebody set the cursor.
async fn deliver(shared: &Shared, event: &Event) {
    let name = shared.endpoint.name.as_str();
    loop {
        let Err(failure) = send::send(&shared.endpoint, event).await else {
            return shared.delivered(event.id);
        };
        let attempts = shared.failed(&failure);
        if now_ms().saturating_sub(event.at) > GIVE_UP {
            tracing::error!(webhook = name, event = event.id, kind = event.kind, attempts, %failure, "an event is given up");
            return shared.gave_up(event.id);
        }
        tracing::warn!(webhook = name, event = event.id, attempts, %failure, "an event was not delivered; trying again");
        tokio::select! {
            () = tokio::time::sleep(pause(attempts)) => {}
            () = shared.wake.notified() => {}
        }
        if shared.is_rewound() {
            return;
        }
    }
}

/// Stores how far it got; `false`: the store is closed. What cannot be stored is sent again after
/// the next start, and that is all.
async fn keep(store: &Store, name: &str, cursor: i64) -> bool {
    match store.set_webhook(name, cursor).await {
        Ok(()) => true,
        Err(store::Error::Closed) => false,
        Err(error) => {
            tracing::warn!(webhook = name, %error, "a webhook's place could not be stored");
            true
        }
    }
}

fn pause(attempts: u32) -> Duration {
    let doubled = BACK_OFF.0.saturating_mul(1 << attempts.saturating_sub(1).min(12));
    let longest = doubled.min(BACK_OFF.1);
    let mut random = [0u8; 2];
    // Without chance the longest wait is as good.
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    let cut = longest.mul_f64(f64::from(u16::from_be_bytes(random)) / 65_536.0 / 2.0);
    longest - cut
}

#[cfg(test)]
mod tests;
