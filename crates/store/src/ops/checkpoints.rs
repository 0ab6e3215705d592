//! Checkpoints: states of contexts to go back to. They cost a row; the memory is shared.

use super::contexts::snapshot;
use super::rows::execute;
use crate::{CheckpointRow, Error, Result};
use rusqlite::{Connection, OptionalExtension, Row, params};
use types::ObjectId;

const COLUMNS: &str = "wasm, base, taken_at, manifest, name, created_at, version, cwd, executions";

fn key(c: &Connection, object: &ObjectId, context: &str) -> Result<Option<i64>> {
    let sql = "SELECT key FROM contexts WHERE object = ?1 AND id = ?2";
    let mut statement = c.prepare_cached(sql)?;
    Ok(statement.query_row(params![object.as_bytes(), context], |r| r.get(0)).optional()?)
}

/// Keeps the context's state under a name, unless the context has `limit` of them.
pub(crate) fn add(
    c: &Connection,
    object: &ObjectId,
    context: &str,
    name: &str,
    now_ms: i64,
    limit: u32,
) -> Result<CheckpointRow> {
    let key = key(c, object, context)?.ok_or(Error::Missing)?;
    if get_by(c, key, name)?.is_some() {
        return Err(Error::Exists);
    }
    let sql = "SELECT count(*) FROM checkpoints WHERE context = ?1";
    let count: u32 = c.prepare_cached(sql)?.query_row([key], |r| r.get(0))?;
    if count >= limit {
        return Err(Error::TooMany { limit });
    }
    execute(
        c,
        "INSERT INTO checkpoints (context, name, created_at, version, cwd, executions, wasm, base,
            taken_at, manifest)
         SELECT key, ?2, ?3, version, cwd, executions, wasm, base, taken_at, manifest
         FROM contexts WHERE key = ?1",
        params![key, name, now_ms],
    )?;
    get_by(c, key, name)?.ok_or(Error::Missing)
}

pub(crate) const LIST: &str = "WHERE context = ?1 ORDER BY created_at, key";

pub(crate) fn select(rest: &str) -> String {
    format!("SELECT {COLUMNS} FROM checkpoints {rest}")
}

/// Oldest first; `None`: no such context.
pub(crate) fn list(
    c: &Connection,
    object: &ObjectId,
    context: &str,
) -> Result<Option<Vec<CheckpointRow>>> {
    let Some(key) = key(c, object, context)? else { return Ok(None) };
    let mut statement = c.prepare_cached(&select(LIST))?;
    let rows = statement.query_map([key], checkpoint)?;
    Ok(Some(rows.collect::<Result<_, _>>()?))
}

fn get_by(c: &Connection, key: i64, name: &str) -> Result<Option<CheckpointRow>> {
    let sql = select("WHERE context = ?1 AND name = ?2");
    Ok(c.prepare_cached(&sql)?.query_row(params![key, name], checkpoint).optional()?)
}

pub(crate) fn delete(c: &Connection, object: &ObjectId, context: &str, name: &str) -> Result<bool> {
    let Some(key) = key(c, object, context)? else { return Ok(false) };
    let sql = "DELETE FROM checkpoints WHERE context = ?1 AND name = ?2";
    Ok(execute(c, sql, params![key, name])? > 0)
}

fn checkpoint(row: &Row<'_>) -> rusqlite::Result<CheckpointRow> {
    Ok(CheckpointRow {
        snapshot: snapshot(row)?,
        name: row.get(4)?,
        created_at: row.get(5)?,
        version: row.get(6)?,
        cwd: row.get(7)?,
        executions: row.get::<_, i64>(8)?.cast_unsigned(),
    })
}
