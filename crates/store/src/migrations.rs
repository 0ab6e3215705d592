//! Numbered SQL files; the number of the last one that ran is the file's `user_version`.

use crate::{Error, Result};
use rusqlite::Connection;
use std::path::Path;

/// The file at index `n` leads from version `n` to `n + 1`. A released file never changes.
const FILES: &[&str] = &[
    include_str!("../migrations/0001_store.sql"),
    include_str!("../migrations/0002_contexts.sql"),
    include_str!("../migrations/0003_tokens.sql"),
    include_str!("../migrations/0004_lists.sql"),
    include_str!("../migrations/0005_quotas.sql"),
    include_str!("../migrations/0006_events.sql"),
    include_str!("../migrations/0007_token_quota.sql"),
    include_str!("../migrations/0008_running_by_name.sql"),
    include_str!("../migrations/0009_fresh_packs.sql"),
];

/// Refuses what a newer release wrote, before anything is written.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<i64> {
    let found: i64 = connection.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    let known = FILES.len() as i64;
    if found > known {
        return Err(Error::Newer { path: path.into(), found, known });
    }
    Ok(found)
}

/// Brings the file to the newest version, one transaction a step.
pub(crate) fn run(connection: &mut Connection, from: i64) -> Result<()> {
    for (version, sql) in (1..).zip(FILES).skip_while(|(version, _)| *version <= from) {
        let step = connection.transaction()?;
        step.execute_batch(sql)?;
        step.pragma_update(None, "user_version", version)?;
        step.commit()?;
        tracing::debug!(version, "migrated the store");
    }
    Ok(())
}
