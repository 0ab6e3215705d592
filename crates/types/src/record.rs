//! What is kept of a sandbox's life (S3, section 5 of the contract).

use serde::{Deserialize, Serialize};

/// Whether an instance is taken to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// From the committed start intent on.
    Running,
    /// From the recorded stop on.
    Stopped,
}

/// What ended an instance (D), finer than the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The main process ended by itself.
    Exited,
    /// The main process, or init, was ended by a signal that was not ours.
    Signalled,
    /// The main process was ended for want of memory.
    Oom,
    /// The idle alarm.
    Idle,
    /// A stop through the API.
    Stopped,
    /// The sandbox was destroyed.
    Destroyed,
    /// The sandbox expired.
    Expired,
    /// The supervisor's backstop.
    Inactivity,
    /// The machine was short of memory.
    Reclaimed,
    /// The instance was over its disk.
    DiskFull,
    /// The start failed.
    Failed,
    /// It stopped while nothing of ours lived to see it.
    Unknown,
    /// The machine restarted under it.
    NodeLost,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 13] = [
        Cause::Exited,
        Cause::Signalled,
        Cause::Oom,
        Cause::Idle,
        Cause::Stopped,
        Cause::Destroyed,
        Cause::Expired,
        Cause::Inactivity,
        Cause::Reclaimed,
        Cause::DiskFull,
        Cause::Failed,
        Cause::Unknown,
        Cause::NodeLost,
    ];

    /// The cause as it is written in answers and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Exited => "exited",
            Cause::Signalled => "signalled",
            Cause::Oom => "oom",
            Cause::Idle => "idle",
            Cause::Stopped => "stopped",
            Cause::Destroyed => "destroyed",
            Cause::Expired => "expired",
            Cause::Inactivity => "inactivity",
            Cause::Reclaimed => "reclaimed",
            Cause::DiskFull => "disk_full",
            Cause::Failed => "failed",
            Cause::Unknown => "unknown",
            Cause::NodeLost => "node_lost",
        }
    }

    /// The reason that goes with it where no text of a caller or of the engine takes its place.
    pub fn reason(self) -> &'static str {
        match self {
            Cause::Exited | Cause::Signalled | Cause::Oom => "exited",
            Cause::Idle => "idle",
            Cause::Stopped | Cause::Destroyed => "stopped",
            Cause::Expired => "expired",
            Cause::Inactivity => "inactivity timeout",
            Cause::Reclaimed => "reclaimed",
            Cause::DiskFull => "disk full",
            Cause::Failed => "failed",
            Cause::Unknown | Cause::NodeLost => "unknown",
        }
    }
}

impl std::str::FromStr for Cause {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        serde_json::from_value(serde_json::Value::String(text.to_owned()))
            .map_err(|_| format!("{text:?} is no cause"))
    }
}

/// The record (S3). While it runs, `reason`, `exitCode`, `stoppedAt` and `cause` are absent;
/// once stopped all four are there, and `exitCode` is null for every reason but `exited`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Whether it runs.
    pub state: State,
    /// When the last activity started or ended, ms since the epoch.
    pub last_activity: i64,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Exit code of the main process; `Some(None)` is written as null.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<i32>)]
    pub exit_code: Option<Option<i32>>,
    /// When the stop was seen, ms since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<i64>,
    /// When the present or last instance was started, ms since the epoch (D).
    pub started_at: i64,
    /// How many instances there have been, failed starts counted (D).
    pub starts: u64,
    /// What ended it (D).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Option<i32>>, D::Error> {
    Option::deserialize(d).map(Some)
}

/// One stop in the history of a sandbox, kept 30 days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// Which instance: counts from 1 and never goes back.
    pub generation: u64,
    /// When the instance was started, ms since the epoch.
    pub started_at: i64,
    /// When the stop was seen, ms since the epoch.
    pub stopped_at: i64,
    /// Why it stopped.
    pub reason: String,
    /// Exit code of the main process; null for every reason but `exited`.
    pub exit_code: Option<i32>,
    /// What ended it.
    pub cause: Cause,
}
