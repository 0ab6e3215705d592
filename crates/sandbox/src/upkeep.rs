//! What the operator of a server allows, and how long it keeps what is old.

use crate::memory::MemoryRules;
use std::path::PathBuf;
use std::time::Duration;
use types::QuotaTable;

/// Longest wait that a caller may ask for, ms.
pub const WAIT_MAX_MS: u32 = 60_000;

/// The operator's rules.
#[derive(Debug, Clone, Default)]
pub struct Upkeep {
    /// The limits of owners and of the machine.
    pub quotas: QuotaTable,
    /// How long a start waits for room that names no time of its own.
    pub wait: Duration,
    /// When the machine is short of memory.
    pub memory: MemoryRules,
    /// How long is kept what is old.
    pub retention: Retention,
    /// The data directory, of which backups are made.
    pub data: Option<PathBuf>,
}

const DAY: u64 = 86_400_000;

/// How long is kept what is old, ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Stops.
    pub stops: u64,
    /// What is known of destroyed sandboxes.
    pub sandboxes: u64,
    /// Commands that have ended.
    pub executions: u64,
    /// Events.
    pub events: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { stops: 30 * DAY, sandboxes: 90 * DAY, executions: 30 * DAY, events: 30 * DAY }
    }
}
