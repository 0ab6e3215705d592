//! Running instances, as operators see them.

use crate::{ObjectId, Owner, SandboxId};
use serde::{Deserialize, Serialize};

/// A running instance and what it uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningInstance {
    /// Whose.
    pub owner: Owner,
    /// Its sandbox.
    pub id: SandboxId,
    /// The sandbox's object id, which names its directories and control groups.
    #[schema(value_type = String)]
    pub object: ObjectId,
    /// Which of the sandbox's instances.
    pub generation: u64,
    /// Its image.
    pub image: String,
    /// When it was started, ms since the epoch.
    pub started_at: i64,
    /// When the sandbox was last active, ms since the epoch; about a second late at most.
    pub last_activity: i64,
    /// Commands and other activities under way: with any it is not idle.
    pub commands: u64,
    /// Processor time so far, µs; 0 where the machine does not count it.
    pub cpu_us: u64,
    /// Memory, bytes; 0 where the machine does not count it.
    pub memory_bytes: u64,
    /// Its memory limit, MiB.
    pub memory_mib: u64,
    /// Processes and threads; 0 where the machine does not count them.
    pub pids: u64,
}

/// The running instances of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunningList {
    /// When it was looked, ms since the epoch: two lists give what was used in between.
    pub at: i64,
    /// By owner, then name.
    pub instances: Vec<RunningInstance>,
}
