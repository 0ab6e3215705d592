//! The history of commands, the latest [`KEEP`] of each object.

use super::rows::{bad_enum, execute, json, object, to_json};
use super::sandboxes::touch;
use crate::Result;
use crate::queue::Notes;
use rusqlite::{Connection, Row, params};
use types::{ExecStatus, Execution, ObjectId};

/// How many ended ones an object keeps.
pub(crate) const KEEP: u32 = 1000;
/// Trimmed when this many too many.
const SLACK: u32 = 100;

const COLUMNS: &str = "object, id, generation, argv, status, started_at, ended_at, exit_code, \
     signal, timed_out, oom_killed";

/// Of a sandbox that is there, and of its present life.
const INSERT: &str = "INSERT INTO executions (object, id, generation, argv, status, started_at,
        ended_at, exit_code, signal, timed_out, oom_killed)
     SELECT object, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM sandboxes
     WHERE object = ?1 AND destroyed_at IS NULL AND history_floor < ?3";

pub(crate) fn write_notes(c: &Connection, object: &ObjectId, notes: &Notes) -> Result<()> {
    if let Some(at) = notes.touched {
        touch(c, object, at)?;
    }
    for execution in &notes.started {
        let sql = format!("{INSERT} ON CONFLICT (object, id) DO NOTHING");
        let added = insert(c, &sql, object, execution)?;
        counted(c, object, added)?;
    }
    Ok(())
}

/// The end of an execution. A true end is not undone by later news that know less.
pub(crate) fn ended(c: &Connection, object: &ObjectId, e: &Execution) -> Result<()> {
    let there = c
        .prepare_cached("SELECT 1 FROM executions WHERE object = ?1 AND id = ?2")?
        .exists(params![object.as_bytes(), e.id])?;
    let sql = format!(
        "{INSERT} ON CONFLICT (object, id) DO UPDATE SET generation = excluded.generation,
            argv = excluded.argv, status = excluded.status, started_at = excluded.started_at,
            ended_at = excluded.ended_at, exit_code = excluded.exit_code,
            signal = excluded.signal, timed_out = excluded.timed_out,
            oom_killed = excluded.oom_killed
         WHERE executions.status = 'running' OR excluded.status = 'exited'"
    );
    let changed = insert(c, &sql, object, e)?;
    counted(c, object, if there { 0 } else { changed })?;
    let Some(at) = e.ended_at else { return Ok(()) };
    // Whoever forgets the command after this must not forget that it kept the sandbox busy.
    execute(
        c,
        "UPDATE sandboxes SET last_activity = max(last_activity, ?3),
            record_activity = max(record_activity, ?3)
         WHERE object = ?1 AND generation = ?2 AND state = 'running' AND destroyed_at IS NULL",
        params![object.as_bytes(), e.generation.cast_signed(), at],
    )?;
    Ok(())
}

fn insert(c: &Connection, sql: &str, object: &ObjectId, e: &Execution) -> Result<usize> {
    execute(
        c,
        sql,
        params![
            object.as_bytes(),
            e.id,
            e.generation.cast_signed(),
            to_json(&e.argv)?,
            status_text(e.status),
            e.started_at,
            e.ended_at,
            e.exit_code,
            e.signal,
            e.timed_out,
            e.oom_killed
        ],
    )
}

/// Counts new ones, and trims when there are too many. Running ones are never trimmed.
fn counted(c: &Connection, object: &ObjectId, added: usize) -> Result<()> {
    if added == 0 {
        return Ok(());
    }
    let sql = "UPDATE sandboxes SET executions = executions + 1 WHERE object = ?1
         RETURNING executions";
    let count: u32 = c.prepare_cached(sql)?.query_row([object.as_bytes()], |r| r.get(0))?;
    if count <= KEEP + SLACK {
        return Ok(());
    }
    execute(
        c,
        "DELETE FROM executions WHERE key IN (
            SELECT key FROM executions WHERE object = ?1
            ORDER BY started_at DESC, key DESC LIMIT -1 OFFSET ?2) AND status <> 'running'",
        params![object.as_bytes(), KEEP],
    )?;
    let sql = "UPDATE sandboxes SET executions = ?2 WHERE object = ?1";
    execute(c, sql, params![object.as_bytes(), KEEP])?;
    Ok(())
}

pub(crate) const LATEST: &str = "WHERE object = ?1 ORDER BY started_at DESC, key DESC LIMIT ?2";
pub(crate) const OPEN: &str = "WHERE status = 'running'";

pub(crate) fn latest(c: &Connection, object: &ObjectId, limit: u32) -> Result<Vec<Execution>> {
    let sql = select(LATEST);
    let mut statement = c.prepare_cached(&sql)?;
    let rows = statement.query_map(params![object.as_bytes(), limit.min(KEEP)], execution)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn open(c: &Connection) -> Result<Vec<(ObjectId, Execution)>> {
    let mut statement = c.prepare_cached(&select(OPEN))?;
    let rows = statement.query_map([], |row| Ok((object(row, 0)?, execution(row)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn select(rest: &str) -> String {
    format!("SELECT {COLUMNS} FROM executions {rest}")
}

fn execution(row: &Row<'_>) -> rusqlite::Result<Execution> {
    Ok(Execution {
        id: row.get(1)?,
        generation: row.get::<_, i64>(2)?.cast_unsigned(),
        argv: json(row, 3)?,
        status: match row.get_ref(4)?.as_str()? {
            "running" => ExecStatus::Running,
            "exited" => ExecStatus::Exited,
            "unknown" => ExecStatus::Unknown,
            other => return Err(bad_enum(4, other)),
        },
        started_at: row.get(5)?,
        ended_at: row.get(6)?,
        exit_code: row.get(7)?,
        signal: row.get(8)?,
        timed_out: row.get(9)?,
        oom_killed: row.get(10)?,
    })
}

fn status_text(status: ExecStatus) -> &'static str {
    match status {
        ExecStatus::Running => "running",
        ExecStatus::Exited => "exited",
        ExecStatus::Unknown => "unknown",
    }
}
