//! `SandboxInfo` of what is kept (S4).

use crate::errors;
use containers::{Capabilities, Engine};
use store::SandboxRow;
use types::{ContextInfo, ObjectId, Result, SandboxInfo, State, WorkspaceInfo, iso8601};

/// The info of a row, on an engine that can do this.
pub(crate) fn of(
    row: SandboxRow,
    contexts: Vec<ContextInfo>,
    workspace: WorkspaceInfo,
    can: Capabilities,
) -> SandboxInfo {
    let limits = [
        ("memoryMib", can.memory_limit),
        ("pids", can.pids_limit),
        ("vcpu", can.cpu_limit),
        ("diskMb", can.disk_limit),
    ];
    let ttl = row.settings.time.idle_ttl_ms;
    SandboxInfo {
        id: row.name.id,
        created_at: iso8601(row.created_at),
        last_used: iso8601(row.last_activity),
        env_vars: row.env_vars,
        labels: row.labels,
        contexts,
        workspace,
        expires_at: (ttl > 0 && !row.expired).then(|| row.last_activity + ttl as i64),
        owner: row.name.owner,
        running: row.record.as_ref().is_some_and(|r| r.state == State::Running),
        record: row.record,
        settings: row.settings,
        not_enforced: limits.iter().filter(|(_, can)| !can).map(|(f, _)| (*f).into()).collect(),
    }
}

/// Counts what `/workspace` holds.
pub(crate) async fn workspace(engine: &dyn Engine, object: &ObjectId) -> Result<WorkspaceInfo> {
    let measured = engine.measure_workspace(object).await;
    let (files, bytes) =
        measured.map_err(|e| errors::of_engine_work("counting the workspace", &e))?;
    Ok(WorkspaceInfo { files, bytes })
}
