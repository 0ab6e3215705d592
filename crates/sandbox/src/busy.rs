//! Activities without an instance: code, files.

use objects::Hold;
use std::collections::BTreeMap;
use tokio::sync::watch;
use types::{ObjectId, Owner, SandboxId, SandboxName, Settings};

/// An activity under way that needs no instance. Until it is dropped the sandbox is neither idle
/// nor expired; both its beginning and its end count as activity (section 6 of the contract).
///
/// A destroy and an expiry abort it and wait a while for its drop before they delete anything,
/// so whoever has one must not wait for an answer of the same sandbox, and must drop it soon
/// after [`Busy::aborted`].
pub struct Busy {
    pub(crate) object: ObjectId,
    pub(crate) name: SandboxName,
    pub(crate) env_vars: BTreeMap<String, String>,
    pub(crate) settings: Settings,
    pub(crate) created_at: i64,
    pub(crate) abort: watch::Receiver<bool>,
    pub(crate) _hold: Hold,
}

impl Busy {
    /// The sandbox's object.
    pub fn object(&self) -> &ObjectId {
        &self.object
    }

    /// Whose it is.
    pub fn owner(&self) -> &Owner {
        &self.name.owner
    }

    /// Its id.
    pub fn id(&self) -> &SandboxId {
        &self.name.id
    }

    /// The sandbox's variables when the activity began.
    pub fn env_vars(&self) -> &BTreeMap<String, String> {
        &self.env_vars
    }

    /// The sandbox's settings when the activity began.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// When this life of the sandbox began, ms since the epoch.
    pub fn created_at(&self) -> i64 {
        self.created_at
    }

    /// Waits until the activity has to end, as its sandbox goes. Cancel-safe; any number at once.
    pub async fn aborted(&self) {
        let mut abort = self.abort.clone();
        // A sandbox whose copy broke down cannot wait for it either.
        let _ = abort.wait_for(|abort| *abort).await;
    }

    /// Whether it has to end.
    pub fn is_aborted(&self) -> bool {
        *self.abort.borrow() || self.abort.has_changed().is_err()
    }
}
