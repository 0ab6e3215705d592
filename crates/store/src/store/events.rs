//! The handle, as far as events are concerned.

use super::Store;
use crate::ops::events;
use crate::queue::{Call, Job};
use crate::{Error, EventFilter, Result};
use rusqlite::Connection;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use types::{ErrorCode, EventPage, EventType, ObjectId, Owner, SandboxId};

/// Longest page of events.
const PAGE: u32 = 1000;
/// Of the refusals of one quota of one owner one is told in this time: whoever asks in vain again
/// and again must not make the server write.
const REFUSALS: Duration = Duration::from_secs(10);
/// Owners and quotas that are remembered for it. When there are more all are forgotten.
const REMEMBERED: usize = 1024;

/// When which refusals were last told.
#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<(Owner, String), Instant>>);

impl Refusals {
    fn admits(&self, owner: &Owner, quota: &str) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if told.len() >= REMEMBERED {
            told.retain(|_, at| now.duration_since(*at) < REFUSALS);
        }
        if told.len() >= REMEMBERED {
            told.clear();
        }
        let key = (owner.clone(), quota.to_owned());
        if told.get(&key).is_some_and(|at| now.duration_since(*at) < REFUSALS) {
            return false;
        }
        told.insert(key, now);
        true
    }
}

/// A write whose end nobody waits for.
struct Unawaited<F>(F);

impl<F: Fn(&Connection) -> Result<()> + Send> Call for Unawaited<F> {
    fn run(&mut self, connection: &Connection) -> Result<()> {
        (self.0)(connection)
    }
    fn fail(&mut self, error: Error) {
        tracing::warn!(error = &error as &dyn std::error::Error, "an event was not written");
    }
    fn answer(self: Box<Self>, commit: Result<()>) {
        if let Err(error) = commit {
            tracing::warn!(error = &error as &dyn std::error::Error, "an event was not written");
        }
    }
}

impl Store {
    /// The events behind `after`, oldest first, at most `limit` (1 to 1000); without `after` from
    /// the oldest that is kept. Going on with `nextAfter` shows each one exactly once.
    pub async fn events(
        &self,
        filter: &EventFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<EventPage> {
        let (filter, limit) = (filter.clone(), limit.clamp(1, PAGE));
        self.read(move |c| events::page(c, &filter, after, limit)).await
    }

    /// The id of the newest event that is on the disk, and whenever that changes. 0: there was
    /// none yet. Closed with the store.
    pub fn newest_event(&self) -> watch::Receiver<i64> {
        self.inner.newest.clone()
    }

    /// Writes an event of what is no change of the store, and so in no other commit. Of a sandbox
    /// that is not there: nothing.
    pub async fn note_event(&self, object: &ObjectId, kind: EventType, data: &Value) -> Result<()> {
        let (id, data) = (*object, data.clone());
        self.write(Some(object), false, move |c| events::of_object(c, &id, kind, true, &data)).await
    }

    /// Tells that a quota refused something; not awaited. Of many in a few seconds that are of one
    /// owner and one `quota` the first is told.
    pub fn note_refusal(
        &self,
        owner: &Owner,
        sandbox: Option<&SandboxId>,
        quota: &str,
        limit: impl Into<Value>,
        current: impl Into<Value>,
    ) {
        if !self.inner.refusals.admits(owner, quota) {
            return;
        }
        let (limit, current): (Value, Value) = (limit.into(), current.into());
        let data = serde_json::json!({"quota": quota, "limit": limit, "current": current});
        let (owner, sandbox) = (owner.clone(), sandbox.cloned());
        let call = Unawaited(move |c: &Connection| {
            events::of_owner(c, &owner, sandbox.as_ref(), EventType::QuotaRefused, &data)
        });
        let job =
            Job { urgent: false, notes: Vec::new(), call: Some(Box::new(call)), _place: None };
        // A store that is closed tells nothing any more.
        let _ = self.inner.queue.push(None, job);
    }

    /// [`Store::note_refusal`] with what the caller is told; of any other error nothing.
    pub fn note_quota(&self, owner: &Owner, sandbox: Option<&SandboxId>, error: &types::Error) {
        let fact = |key: &str| error.context.get(key).cloned().unwrap_or_default();
        let what = match error.code {
            ErrorCode::QuotaExceeded => fact("what"),
            ErrorCode::NoSpace if fact("of") == "entries" => Value::from("workspaceEntries"),
            ErrorCode::NoSpace => Value::from("workspaceBytes"),
            _ => return,
        };
        // Of a limit that is shared nobody is told how much others have: null.
        let (limit, current) = (fact("limit"), fact("current"));
        self.note_refusal(owner, sandbox, what.as_str().unwrap_or_default(), limit, current);
    }

    /// The last event that a webhook is done with. One that is not known is from now on, and begins
    /// behind the newest event.
    pub async fn webhook(&self, name: &str) -> Result<i64> {
        let name = name.to_owned();
        self.write(None, false, move |c| events::webhook(c, &name)).await
    }

    /// Moves a webhook's place.
    pub async fn set_webhook(&self, name: &str, cursor: i64) -> Result<()> {
        let name = name.to_owned();
        self.write(None, false, move |c| events::set_webhook(c, &name, cursor)).await
    }

    /// Deletes events written before `before`, ms since the epoch, and the oldest of more than
    /// `keep`, at most `batch`; how many. Urgent: it frees space.
    pub async fn sweep_events(&self, before: i64, keep: u64, batch: u32) -> Result<u64> {
        self.write(None, true, move |c| events::sweep(c, before, keep, batch)).await
    }
}
