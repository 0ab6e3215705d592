//! The account's list: every sandbox that was ever started, by name, one for each object.

use super::rows::{json, object, parse, state};
use crate::{AccountRow, Placement, Result};
use rusqlite::{Connection, OptionalExtension, Row, params};
use types::{InstanceFilter, ObjectId};

const COLUMNS: &str = "s.object, s.name, s.placement, s.image, s.state, s.started_at, \
     s.stopped_at, s.ended_at, s.destroying_at, s.destroyed_at, s.exit_code, s.cause";

/// What stopped before `?1` is told no more.
const KEPT: &str = "(s.state = 'running' OR coalesce(s.stopped_at, s.ended_at) >= ?1)";

/// The statement of a page.
pub(crate) fn page_sql(active: Option<bool>) -> String {
    let (index, which) = match active {
        Some(true) => ("sandboxes_running", "s.state = 'running'"),
        Some(false) => ("sandboxes_started", "s.generation > 0 AND s.state IS NOT 'running'"),
        None => ("sandboxes_started", "s.generation > 0"),
    };
    format!(
        "SELECT {COLUMNS} FROM sandboxes s INDEXED BY {index}
         WHERE {which} AND {KEPT} AND s.name >= ?2 AND s.name < ?3 ORDER BY s.name LIMIT ?4"
    )
}

/// At most `limit` rows behind the name `after`.
pub(crate) fn page(
    c: &Connection,
    filter: &InstanceFilter,
    since_ms: i64,
    limit: u32,
    after: Option<&str>,
) -> Result<Vec<AccountRow>> {
    let behind = after.map(|name| format!("{name}\0")).unwrap_or_default();
    let first = behind.max(filter.prefix.clone());
    let last = format!("{}\u{10ffff}", filter.prefix);
    let mut statement = c.prepare_cached(&page_sql(filter.active))?;
    let rows = statement.query_map(params![since_ms, first, last, limit], account)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// One of them.
pub(crate) fn one(c: &Connection, id: &ObjectId, since_ms: i64) -> Result<Option<AccountRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sandboxes s WHERE s.object = ?2 AND s.generation > 0 AND {KEPT}"
    );
    let params = params![since_ms, id.as_bytes()];
    Ok(c.prepare_cached(&sql)?.query_row(params, account).optional()?)
}

fn account(row: &Row<'_>) -> rusqlite::Result<AccountRow> {
    let placement = match row.get_ref(2)? {
        // Destroyed before placements were kept.
        rusqlite::types::ValueRef::Null => Placement { image: row.get(3)?, ..Placement::default() },
        _ => json(row, 2)?,
    };
    Ok(AccountRow {
        object: object(row, 0)?,
        name: row.get(1)?,
        placement,
        state: state(row, 4)?,
        started_at: row.get(5)?,
        stopped_at: row.get(6)?,
        ended_at: row.get(7)?,
        destroying_at: row.get(8)?,
        destroyed_at: row.get(9)?,
        exit_code: row.get(10)?,
        cause: row.get::<_, Option<String>>(11)?.map(|_| parse(row, 11)).transpose()?,
    })
}
