//! What is too old goes, a batch at a time.

use super::rows::execute;
use crate::Result;
use rusqlite::{Connection, params};

pub(crate) const STOPS: &str = "DELETE FROM stops WHERE key IN (
     SELECT key FROM stops WHERE stopped_at < ?1 ORDER BY stopped_at LIMIT ?2)";

/// A tombstone carries the generation on; it stays as long as stops of its object are kept.
pub(crate) const TOMBSTONES: &str = "DELETE FROM sandboxes WHERE key IN (
     SELECT key FROM sandboxes WHERE destroyed_at IS NOT NULL AND destroyed_at < ?1
        AND NOT EXISTS (SELECT 1 FROM stops WHERE stops.object = sandboxes.object)
     ORDER BY destroyed_at LIMIT ?2)";

pub(crate) const EXECUTIONS: &str = "DELETE FROM executions WHERE key IN (
     SELECT key FROM executions WHERE status <> 'running' AND started_at < ?1
     ORDER BY started_at LIMIT ?2)";

pub(crate) fn sweep(c: &Connection, before: [i64; 3], batch: u32) -> Result<u64> {
    let mut gone = 0;
    for (sql, before) in [STOPS, TOMBSTONES, EXECUTIONS].into_iter().zip(before) {
        gone += execute(c, sql, params![before, batch])? as u64;
    }
    Ok(gone)
}
