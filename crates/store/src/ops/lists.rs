//! Lists: every one walks an index from its place on, never a table, never a sort.

use super::rows::{COLUMNS, FROM, object, parse, sandbox, state};
use crate::cursor::Place;
use crate::{ListFilter, Result, SandboxRow};
use rusqlite::{Connection, Row, params};
use types::{DirectoryEntry, ObjectId, Owner, SandboxSummary, State, Stop};

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

/// The page's statement. `substr` keeps the prefix from competing with the order for an index.
pub(crate) fn page_sql(filter: &ListFilter) -> String {
    let state = match filter.state {
        // The words stand in the text, so that the partial index is seen to fit.
        Some(State::Running) => "AND state = 'running' AND state IS NOT NULL",
        Some(State::Stopped) => "AND state = 'stopped' AND state IS NOT NULL",
        None => "",
    };
    format!(
        "SELECT id, created_at, state, last_activity, image, reason FROM sandboxes
         WHERE owner = ?1 AND destroyed_at IS NULL {state}
            AND (created_at, id) > (?2, ?3) AND substr(id, 1, length(?4)) = ?4
         ORDER BY created_at, id LIMIT ?5"
    )
}

/// At most `limit` rows behind `place`.
pub(crate) fn page(
    c: &Connection,
    owner: &Owner,
    filter: &ListFilter,
    limit: u32,
    place: &Place,
) -> Result<Vec<SandboxSummary>> {
    let prefix = filter.prefix.as_deref().unwrap_or_default();
    let mut statement = c.prepare_cached(&page_sql(filter))?;
    let params = params![owner.as_str(), place.created_at, place.id, prefix, limit];
    let rows = statement.query_map(params, |row| summary(row, owner))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn summary(row: &Row<'_>, owner: &Owner) -> rusqlite::Result<SandboxSummary> {
    let state = state(row, 2)?;
    Ok(SandboxSummary {
        id: parse(row, 0)?,
        owner: owner.clone(),
        created_at: row.get(1)?,
        state,
        running: state == Some(State::Running),
        last_activity: row.get(3)?,
        image: row.get(4)?,
        reason: row.get(5)?,
    })
}

pub(crate) const RUNNING: &str = "WHERE s.state = 'running'";
pub(crate) const DESTROYING: &str =
    "WHERE s.destroying_at IS NOT NULL AND s.destroying_at > -9223372036854775807";

pub(crate) fn rows_sql(rest: &str) -> String {
    format!("SELECT {COLUMNS} FROM {FROM} {rest}")
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
