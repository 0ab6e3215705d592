//! Lists: every one walks an index from its place on, never a table, never a sort.

use super::rows::{FROM, columns, object, parse, sandbox, state};
use crate::{Result, SandboxRow};
use rusqlite::{Connection, params};
use types::{DirectoryEntry, ObjectId, Owner, State, Stop};

pub(crate) const DIRECTORY: &str = "SELECT id, state FROM sandboxes
     WHERE owner = ?1 AND destroyed_at IS NULL ORDER BY created_at, id";

pub(crate) fn directory(c: &Connection, owner: &Owner) -> Result<Vec<DirectoryEntry>> {
    let mut statement = c.prepare_cached(DIRECTORY)?;
    let rows = statement.query_map([owner.as_str()], |row| {
        let running = state(row, 1)? == Some(State::Running);
        Ok(DirectoryEntry { session: parse(row, 0)?, running })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) const COUNT: &str = "SELECT count(*) FROM sandboxes INDEXED BY sandboxes_directory
     WHERE destroyed_at IS NULL";

pub(crate) fn count(c: &Connection) -> Result<u64> {
    let count: i64 = c.prepare_cached(COUNT)?.query_row([], |r| r.get(0))?;
    Ok(count.cast_unsigned())
}

pub(crate) const RUNNING: &str = "WHERE s.state = 'running'";
pub(crate) const DESTROYING: &str =
    "WHERE s.destroying_at IS NOT NULL AND s.destroying_at > -9223372036854775807";

pub(crate) fn rows_sql(rest: &str) -> String {
    format!("SELECT {} FROM {FROM} {rest}", columns())
}

/// Whole rows of a few sandboxes out of many.
pub(crate) fn rows(c: &Connection, rest: &str) -> Result<Vec<SandboxRow>> {
    let mut statement = c.prepare_cached(&rows_sql(rest))?;
    let rows = statement.query_map([], sandbox)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) const STOPS: &str =
    "SELECT generation, started_at, stopped_at, reason, exit_code, cause FROM stops
     WHERE object = ?1 AND stopped_at >= ?2 ORDER BY generation DESC LIMIT 10000";

pub(crate) fn stops(c: &Connection, object: &ObjectId, since_ms: i64) -> Result<Vec<Stop>> {
    let mut statement = c.prepare_cached(STOPS)?;
    let rows = statement.query_map(params![object.as_bytes(), since_ms], |row| {
        Ok(Stop {
            generation: row.get::<_, i64>(0)?.cast_unsigned(),
            started_at: row.get(1)?,
            stopped_at: row.get(2)?,
            reason: row.get(3)?,
            exit_code: row.get(4)?,
            cause: parse(row, 5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) const ALARMS: &str = "SELECT object, alarm_at FROM sandboxes
     WHERE alarm_at IS NOT NULL AND (alarm_at, object) > (?1, ?2)
     ORDER BY alarm_at, object LIMIT ?3";

pub(crate) fn alarms(
    c: &Connection,
    after: Option<(i64, ObjectId)>,
    limit: u32,
) -> Result<Vec<(ObjectId, i64)>> {
    let (at, last) = after.map_or((i64::MIN, Vec::new()), |(at, o)| (at, o.as_bytes().to_vec()));
    let mut statement = c.prepare_cached(ALARMS)?;
    let rows =
        statement.query_map(params![at, last, limit], |row| Ok((object(row, 0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
