//! Stops on their way to `--on-stop`, and small facts of the server.

use super::rows::execute;
use crate::{OutboxItem, Result};
use rusqlite::{Connection, OptionalExtension, params};

pub(crate) const OLDEST: &str = "SELECT id, payload, attempts FROM outbox ORDER BY id LIMIT ?1";

pub(crate) fn add(c: &Connection, payload: &str) -> Result<()> {
    execute(c, "INSERT INTO outbox (payload) VALUES (?1)", [payload])?;
    Ok(())
}

pub(crate) fn oldest(c: &Connection, limit: u32) -> Result<Vec<OutboxItem>> {
    let mut statement = c.prepare_cached(OLDEST)?;
    let rows = statement.query_map([limit], |row| {
        Ok(OutboxItem { id: row.get(0)?, payload: row.get(1)?, attempts: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn done(c: &Connection, id: i64) -> Result<()> {
    execute(c, "DELETE FROM outbox WHERE id = ?1", [id])?;
    Ok(())
}

pub(crate) fn failed(c: &Connection, id: i64) -> Result<()> {
    // Held below what the caller's counter takes.
    let sql = "UPDATE outbox SET attempts = min(attempts + 1, 4294967295) WHERE id = ?1";
    execute(c, sql, [id])?;
    Ok(())
}

pub(crate) fn meta(c: &Connection, key: &str) -> Result<Option<String>> {
    let sql = "SELECT value FROM meta WHERE key = ?1";
    Ok(c.prepare_cached(sql)?.query_row([key], |r| r.get(0)).optional()?)
}

pub(crate) fn set_meta(c: &Connection, key: &str, value: &str) -> Result<()> {
    execute(c, "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", params![key, value])?;
    Ok(())
}
