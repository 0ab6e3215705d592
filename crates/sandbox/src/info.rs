//! `SandboxInfo` of what is kept (S4).

use crate::errors;
use containers::Engine;
use std::path::Path;
use store::SandboxRow;
use types::{ObjectId, Result, SandboxInfo, State, WorkspaceInfo, iso8601};

/// The info of a row.
pub(crate) fn of(row: SandboxRow, workspace: WorkspaceInfo) -> SandboxInfo {
    let ttl = row.settings.time.idle_ttl_ms;
    SandboxInfo {
        id: row.name.id,
        created_at: iso8601(row.created_at),
        last_used: iso8601(row.last_activity),
        env_vars: row.env_vars,
        contexts: Vec::new(),
        workspace,
        expires_at: (ttl > 0 && !row.expired).then(|| row.last_activity + ttl as i64),
        owner: row.name.owner,
        running: row.record.as_ref().is_some_and(|r| r.state == State::Running),
        record: row.record,
        settings: row.settings,
    }
}

/// Counts what `/workspace` holds.
pub(crate) async fn workspace(engine: &dyn Engine, object: &ObjectId) -> Result<WorkspaceInfo> {
    let root = engine.workspace(object).await.map_err(|e| errors::of_engine(&e))?;
    tokio::task::spawn_blocking(move || count(&root))
        .await
        .map_err(|e| errors::internal("counting the workspace", e))
}

/// Files and directories below `root`, links not followed. What vanishes meanwhile or cannot
/// be read is left out.
fn count(root: &Path) -> WorkspaceInfo {
    let mut info = WorkspaceInfo::default();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            info.files += 1;
            if meta.is_dir() {
                open.push(entry.path());
            } else if meta.is_file() {
                info.bytes += meta.len();
            }
        }
    }
    info
}
