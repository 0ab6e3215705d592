//! Rows to values and back.

use super::labels;
use crate::{Result, SandboxRow};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row};
use types::{ObjectId, Record, SandboxName, State};

const COLUMNS: &str = "s.object, s.owner, s.id, s.created_at, s.last_activity, \
     c.settings, c.env_vars, s.generation, s.state, s.record_activity, s.reason, s.exit_code, \
     s.stopped_at, s.started_at, s.starts, s.cause, s.destroying_at IS NOT NULL, s.expired";

/// Columns of [`sandbox`], of the tables in [`FROM`].
pub(crate) fn columns() -> String {
    format!("{COLUMNS}, {}", labels::OF_SANDBOX)
}

/// CROSS: the sandbox first, then its configuration, always.
pub(crate) const FROM: &str = "sandboxes s CROSS JOIN configurations c ON c.sandbox = s.key";

/// The sandbox of an object, unless it is a tombstone.
pub(crate) fn load(c: &Connection, object: &ObjectId) -> Result<Option<SandboxRow>> {
    let columns = columns();
    let sql =
        format!("SELECT {columns} FROM {FROM} WHERE s.object = ?1 AND s.destroyed_at IS NULL");
    Ok(c.prepare_cached(&sql)?.query_row([object.as_bytes()], sandbox).optional()?)
}

pub(crate) fn sandbox(row: &Row<'_>) -> rusqlite::Result<SandboxRow> {
    Ok(SandboxRow {
        object: object(row, 0)?,
        name: SandboxName::new(parse(row, 1)?, parse(row, 2)?),
        created_at: row.get(3)?,
        last_activity: row.get(4)?,
        settings: json(row, 5)?,
        env_vars: json(row, 6)?,
        labels: json(row, 18)?,
        generation: row.get::<_, i64>(7)?.cast_unsigned(),
        record: record(row)?,
        destroying: row.get(16)?,
        expired: row.get(17)?,
    })
}

fn record(row: &Row<'_>) -> rusqlite::Result<Option<Record>> {
    let Some(state) = state(row, 8)? else { return Ok(None) };
    let stopped = state == State::Stopped;
    Ok(Some(Record {
        state,
        last_activity: row.get(9)?,
        reason: row.get(10)?,
        exit_code: if stopped { Some(row.get(11)?) } else { None },
        stopped_at: row.get(12)?,
        started_at: row.get(13)?,
        starts: row.get::<_, i64>(14)?.cast_unsigned(),
        cause: row.get::<_, Option<String>>(15)?.map(|_| parse(row, 15)).transpose()?,
    }))
}

pub(crate) fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<State>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| match text.as_str() {
        "running" => Ok(State::Running),
        "stopped" => Ok(State::Stopped),
        other => Err(bad_enum(column, other)),
    })
    .transpose()
}

pub(crate) fn object(row: &Row<'_>, column: usize) -> rusqlite::Result<ObjectId> {
    // The vocabulary makes an id from text alone.
    let bytes: [u8; 32] = row.get(column)?;
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    hex.parse().map_err(|_| bad_enum(column, &hex))
}

pub(crate) fn parse<T: std::str::FromStr>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T::Err: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    row.get::<_, String>(column)?.parse().map_err(|e: T::Err| bad(column, e.into()))
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|e| bad(column, e.into()))
}

pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

pub(crate) fn bad_enum(column: usize, text: &str) -> rusqlite::Error {
    bad(column, format!("{text:?} is none of the known words").into())
}

fn bad(column: usize, error: Box<dyn std::error::Error + Send + Sync>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error)
}

/// Runs a prepared statement; how many rows it changed.
pub(crate) fn execute(c: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<usize> {
    Ok(c.prepare_cached(sql)?.execute(params)?)
}
