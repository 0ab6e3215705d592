//! What happened, to be read and to be followed.

use crate::errors;
use crate::service::Sandboxes;
use store::{EventFilter, Store};
use tokio::sync::watch;
use types::{EventPage, Result};

/// Events that a follower takes at once.
const PIECE: u32 = 200;

impl Sandboxes {
    /// A page of events: see [`Store::events`]. Wakes nothing.
    pub async fn events(
        &self,
        filter: &EventFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<EventPage> {
        self.world.store.events(filter, after, limit).await.map_err(errors::of_store)
    }

    /// Follows events from behind `after` on; without it, those to come.
    pub fn follow_events(&self, filter: EventFilter, after: Option<i64>) -> Followed {
        let store = self.world.store.clone();
        let newest = store.newest_event();
        let known = *newest.borrow();
        Followed { store, newest, filter, after: after.unwrap_or(known), unread: true }
    }
}

/// Events as they come. Nothing waits here for a slow reader: each look is one at the store, by
/// the last id that was given out.
pub struct Followed {
    store: Store,
    newest: watch::Receiver<i64>,
    filter: EventFilter,
    after: i64,
    /// There may be some behind `after`.
    unread: bool,
}

impl Followed {
    /// Where it goes on.
    pub fn after(&self) -> i64 {
        self.after
    }

    /// The next events, at least one unless some were missed; `None`: the server ends.
    /// Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<EventPage>> {
        loop {
            if !self.unread {
                // Before the look, so that what is written meanwhile is looked for again.
                if self.newest.changed().await.is_err() {
                    return Ok(None);
                }
                self.unread = true;
            }
            let newest = *self.newest.borrow_and_update();
            let page = self.store.events(&self.filter, Some(self.after), PIECE).await;
            let page = page.map_err(errors::of_store)?;
            self.after = page.next_after;
            self.unread = page.more || page.next_after < newest;
            if page.missed || !page.events.is_empty() {
                return Ok(Some(page));
            }
        }
    }
}
