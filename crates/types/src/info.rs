//! What is told of sandboxes: info, summaries, pages (S1, S4).

use crate::{ContextInfo, Owner, Record, SandboxId, Settings, State};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One entry of an owner's directory, exactly these two keys (S1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DirectoryEntry {
    /// The sandbox's id.
    pub session: SandboxId,
    /// Whether an instance of it runs.
    pub running: bool,
}

/// What `/workspace` holds; the root itself is not counted (S4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WorkspaceInfo {
    /// Files and directories.
    pub files: u64,
    /// Their sizes, bytes.
    pub bytes: u64,
}

/// The answer of `GET /v1/sandboxes/{id}` (S4; `owner`, `labels`, `running`, `record`, `settings` are D).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxInfo {
    /// Its id.
    pub id: SandboxId,
    /// When it came into being, ISO 8601 in UTC.
    pub created_at: String,
    /// When it was last active, ISO 8601 in UTC.
    pub last_used: String,
    /// Environment of every command.
    pub env_vars: BTreeMap<String, String>,
    /// Its labels (D).
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its code contexts.
    pub contexts: Vec<ContextInfo>,
    /// What `/workspace` holds.
    pub workspace: WorkspaceInfo,
    /// When it expires, ms since the epoch; null when expiry is off.
    pub expires_at: Option<i64>,
    /// Whose it is.
    pub owner: Owner,
    /// Whether an instance of it runs.
    pub running: bool,
    /// Its record; null when it was never started.
    pub record: Option<Record>,
    /// Its settings.
    pub settings: Settings,
    /// Limits in `settings` that this server cannot enforce (it runs as an ordinary user, or the
    /// machine lacks something); absent: all hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_enforced: Vec<String>,
}

/// One sandbox in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSummary {
    /// Its id.
    pub id: SandboxId,
    /// Whose it is.
    pub owner: Owner,
    /// When it entered the directory, ms since the epoch.
    pub created_at: i64,
    /// Its state; null when it was never started.
    pub state: Option<State>,
    /// Whether an instance of it runs.
    pub running: bool,
    /// When it was last active, ms since the epoch.
    pub last_activity: i64,
    /// The image of its instances.
    pub image: String,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Why it stopped last; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A page of sandboxes, in the order that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// At most `limit` of them.
    pub sandboxes: Vec<SandboxSummary>,
    /// For the next page; null on the last.
    pub next_cursor: Option<String>,
}

/// Body of `POST /v1/sandboxes/{id}/stop`; no body at all is fine too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StopRequest {
    /// The reason to record; `stopped` by default. 1 to 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// SIGTERM to the main process first, and SIGKILL only after this long, ms.
    #[serde(default)]
    pub grace_ms: u64,
}
