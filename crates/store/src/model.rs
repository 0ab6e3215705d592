//! What the store keeps, as its callers see it.

mod account;
mod contexts;
mod tokens;

pub use account::{AccountRow, Placement};
pub use contexts::{CheckpointRow, ContextRow, ContextState, FreshPack, SnapshotRow, WrittenPack};
pub use tokens::TokenRow;

use std::collections::BTreeMap;
use types::{Cause, EventType, ObjectId, Owner, Record, SandboxId, SandboxName, Settings};

/// A sandbox as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxRow {
    /// Its object.
    pub object: ObjectId,
    /// Its name.
    pub name: SandboxName,
    /// When its directory entry was made, ms since the epoch; kept until removed.
    pub created_at: i64,
    /// When it was last active, with or without an instance, ms since the epoch.
    pub last_activity: i64,
    /// Its settings.
    pub settings: Settings,
    /// Its variables.
    pub env_vars: BTreeMap<String, String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// How many instances the object ever had, over destroys too. Never goes back.
    pub generation: u64,
    /// Its record; `None`: never started since it came into being.
    pub record: Option<Record>,
    /// A destroy was accepted and is not finished.
    pub destroying: bool,
    /// It expired and was not used since: only the directory entry and the record are left.
    pub expired: bool,
}

impl SandboxRow {
    /// The same with an activity that is not written yet.
    pub(crate) fn touched(mut self, at: Option<i64>) -> Self {
        let Some(at) = at else { return self };
        self.last_activity = self.last_activity.max(at);
        if let Some(record) = self.record.as_mut().filter(|r| r.state == types::State::Running) {
            record.last_activity = record.last_activity.max(at);
        }
        self
    }
}

/// A stop to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopRecord {
    /// Which instance stopped.
    pub generation: u64,
    /// Why, in words.
    pub reason: String,
    /// Exit code of the main process; `None` for every reason but `exited`.
    pub exit_code: Option<i32>,
    /// What ended it.
    pub cause: Cause,
    /// When it was seen, ms since the epoch.
    pub stopped_at: i64,
}

/// A stop on its way to `--on-stop`. Delivered at least once.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxItem {
    /// Its place in the queue; grows.
    pub id: i64,
    /// The JSON text to deliver.
    pub payload: String,
    /// How often delivery failed.
    pub attempts: u32,
}

/// Which events are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Whose; `None`: everybody's.
    pub owner: Option<Owner>,
    /// Of which sandbox of that owner; says nothing without an owner.
    pub sandbox: Option<SandboxId>,
    /// Of which types; none: of all.
    pub types: Vec<EventType>,
}
