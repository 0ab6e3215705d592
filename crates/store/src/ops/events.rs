//! Events: written by the operations that they tell of, read by id.

use super::rows::{execute, parse};
use crate::{EventFilter, Result};
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use serde_json::{Map, Value};
use std::time::{SystemTime, UNIX_EPOCH};
use types::{Event, EventPage, EventType, ObjectId, Owner, SandboxId, SandboxName};

/// Wall time, ms. Events are told in the order in which they are written, and dated so.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// An event of a sandbox that is in the table, as a tombstone too. `of_instance`: of its present,
/// or last, generation.
pub(crate) fn of_object(
    c: &Connection,
    object: &ObjectId,
    kind: EventType,
    of_instance: bool,
    data: &Value,
) -> Result<()> {
    execute(
        c,
        "INSERT INTO events (at, type, owner, sandbox, generation, data)
         SELECT ?2, ?3, owner, id, CASE WHEN ?4 THEN generation END, ?5
         FROM sandboxes WHERE object = ?1",
        params![object.as_bytes(), now_ms(), kind.as_str(), of_instance, data.to_string()],
    )?;
    Ok(())
}

/// An event of an owner.
pub(crate) fn of_owner(
    c: &Connection,
    owner: &Owner,
    sandbox: Option<&SandboxId>,
    kind: EventType,
    data: &Value,
) -> Result<()> {
    execute(
        c,
        "INSERT INTO events (at, type, owner, sandbox, data) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            now_ms(),
            kind.as_str(),
            owner.as_str(),
            sandbox.map(SandboxId::as_str),
            data.to_string()
        ],
    )?;
    Ok(())
}

const LAST: &str = "SELECT seq FROM sqlite_sequence WHERE name = 'events'";
const FIRST: &str = "SELECT id FROM events ORDER BY id LIMIT 1";

/// The id of the newest event that there ever was; 0: there was none.
pub(crate) fn last(c: &Connection) -> Result<i64> {
    let seq = c.prepare_cached(LAST)?.query_row([], |r| r.get(0)).optional()?;
    Ok(seq.unwrap_or(0))
}

/// The page's statement, and its parameters behind `after` and `limit`.
pub(crate) fn page_sql(filter: &EventFilter) -> (String, Vec<Sql>) {
    let mut terms = String::new();
    let mut values = Vec::new();
    let mut term = |text: &str, value: &str| {
        values.push(Sql::Text(value.to_owned()));
        terms.push_str(&text.replace('?', &format!("?{}", values.len() + 2)));
    };
    if let Some(owner) = &filter.owner {
        term(" AND owner = ?", owner.as_str());
        if let Some(sandbox) = &filter.sandbox {
            term(" AND sandbox = ? AND sandbox IS NOT NULL", sandbox.as_str());
        }
    }
    let snapshot = EventType::ContextSnapshot.as_str();
    match filter.types.as_slice() {
        [] => {}
        [one] if one.as_str() == snapshot || filter.sandbox.is_some() => {
            // The plus keeps it from competing with the order for an index.
            term(" AND +type = ?", one.as_str());
        }
        [one] => term(" AND type = ? AND type <> 'context.snapshot'", one.as_str()),
        several => {
            terms.push_str(" AND +type IN (");
            for (i, kind) in several.iter().enumerate() {
                values.push(Sql::Text(kind.as_str().to_owned()));
                let comma = if i > 0 { ", " } else { "" };
                terms.push_str(&format!("{comma}?{}", values.len() + 2));
            }
            terms.push(')');
        }
    }
    let sql = format!(
        "SELECT id, at, type, owner, sandbox, generation, data FROM events
         WHERE id > ?1{terms} ORDER BY id LIMIT ?2"
    );
    (sql, values)
}

/// What fits behind `after`, at most `limit`, and where to go on.
pub(crate) fn page(
    c: &Connection,
    filter: &EventFilter,
    after: Option<i64>,
    limit: u32,
) -> Result<EventPage> {
    // One snapshot of the file: an event that is written meanwhile is of the next page.
    let read = c.unchecked_transaction()?;
    let newest = last(&read)?;
    let oldest = read.prepare_cached(FIRST)?.query_row([], |r| r.get(0)).optional()?;
    let oldest: i64 = oldest.unwrap_or(newest + 1);
    let (missed, after) = match after {
        None => (false, oldest - 1),
        // Of another server, or of this one before its store was put back.
        Some(after) if after > newest => (true, newest),
        Some(after) => (after + 1 < oldest, after),
    };
    let (sql, values) = page_sql(filter);
    let mut statement = read.prepare_cached(&sql)?;
    let all = [Sql::Integer(after), Sql::Integer(i64::from(limit) + 1)].into_iter().chain(values);
    let rows = statement.query_map(params_from_iter(all), event)?;
    let mut events = rows.collect::<rusqlite::Result<Vec<Event>>>()?;
    let more = events.len() > limit as usize;
    events.truncate(limit as usize);
    let next_after = match events.last() {
        Some(event) if more => event.id,
        _ => newest,
    };
    Ok(EventPage { events, next_after, more, missed })
}

fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let owner: Owner = parse(row, 3)?;
    let sandbox: Option<SandboxId> =
        row.get::<_, Option<String>>(4)?.map(|_| parse(row, 4)).transpose()?;
    let name = sandbox.clone().map(|id| SandboxName::new(owner.clone(), id));
    Ok(Event {
        id: row.get(0)?,
        at: row.get(1)?,
        kind: row.get(2)?,
        owner,
        object: name.map(|name| name.object_id()),
        sandbox,
        generation: row.get::<_, Option<i64>>(5)?.map(i64::cast_unsigned),
        data: super::rows::json::<Map<String, Value>>(row, 6)?,
    })
}

pub(crate) const HEAD: &str = "SELECT id FROM (SELECT id, at FROM events ORDER BY id LIMIT ?2)
     WHERE at < ?1 OR id <= ?3";

/// Deletes of the oldest `batch` those written before `before`, and those that are more than
/// `keep`. Walks no further, so an old one behind a younger one waits.
pub(crate) fn sweep(c: &Connection, before: i64, keep: u64, batch: u32) -> Result<u64> {
    let last = last(c)?;
    let surplus = last.saturating_sub(i64::try_from(keep).unwrap_or(i64::MAX));
    let sql = format!("DELETE FROM events WHERE id IN ({HEAD})");
    Ok(execute(c, &sql, params![before, batch, surplus])? as u64)
}

/// Where a webhook is; a new one begins behind the newest event.
pub(crate) fn webhook(c: &Connection, name: &str) -> Result<i64> {
    let newest = last(c)?;
    let sql = "INSERT INTO webhooks (name, cursor) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING";
    execute(c, sql, params![name, newest])?;
    let sql = "SELECT cursor FROM webhooks WHERE name = ?1";
    Ok(c.prepare_cached(sql)?.query_row([name], |r| r.get(0))?)
}

pub(crate) fn set_webhook(c: &Connection, name: &str, cursor: i64) -> Result<()> {
    execute(c, "UPDATE webhooks SET cursor = ?2 WHERE name = ?1", params![name, cursor])?;
    Ok(())
}
