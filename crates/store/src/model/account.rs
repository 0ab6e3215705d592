//! The account's list of instances.

use serde::{Deserialize, Serialize};
use types::{Cause, ObjectId, Settings, State};

/// A sandbox that was ever started.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountRow {
    /// Its object.
    pub object: ObjectId,
    /// `<owner>/<id>`.
    pub name: String,
    /// What its latest instance was made of.
    pub placement: Placement,
    /// The state of its record; `None`: it was not started since it came into being anew.
    pub state: Option<State>,
    /// When its latest instance was started, ms since the epoch.
    pub started_at: Option<i64>,
    /// When that stopped, ms since the epoch.
    pub stopped_at: Option<i64>,
    /// When one of an earlier life stopped, ms since the epoch.
    pub ended_at: Option<i64>,
    /// When a destroy of it was accepted that is not finished, ms since the epoch.
    pub destroying_at: Option<i64>,
    /// When it was destroyed, ms since the epoch.
    pub destroyed_at: Option<i64>,
    /// Exit code of its main process.
    pub exit_code: Option<i32>,
    /// What ended it.
    pub cause: Option<Cause>,
}

/// What an instance is made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    /// Its image.
    pub image: String,
    /// Cores.
    pub vcpu: f64,
    /// MiB.
    pub memory_mib: u64,
    /// MB.
    pub disk_mb: u64,
}

impl Placement {
    /// What an instance with these settings is made of.
    pub(crate) fn of(settings: &Settings) -> Self {
        let limits = settings.limits;
        Self {
            image: settings.image.clone(),
            vcpu: limits.vcpu,
            memory_mib: limits.memory_mib,
            disk_mb: limits.disk_mb,
        }
    }
}
