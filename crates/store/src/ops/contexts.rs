//! Code contexts: made within a limit, saved with each execution, gone with their sandbox.

use super::rows::{self, bad_enum, execute, json, parse, to_json};
use super::sandboxes::touch;
use super::{events, quotas};
use crate::{ContextRow, ContextState, Error, FreshPack, Result, SnapshotRow, WrittenPack};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::json;
use types::{EventType, Language, ObjectId, Owner, QuotaKind, QuotaTable};

const COLUMNS: &str = "wasm, base, taken_at, manifest, id, binding, language, engine, version, \
     cwd, env_vars, created_at, last_used, executions, stale";

/// The sandbox is there, is this life of it, and stays: what is saved below must not outlive it.
const ALIVE: &str = "SELECT 1 FROM sandboxes WHERE object = ?1 AND created_at = ?2
     AND destroyed_at IS NULL AND destroying_at IS NULL AND expired = 0";

/// Makes a context, unless the sandbox has `limit` of them.
pub(crate) fn create(
    c: &Connection,
    table: &QuotaTable,
    object: &ObjectId,
    life: i64,
    row: &ContextRow,
    limit: u32,
) -> Result<()> {
    if !c.prepare_cached(ALIVE)?.exists(params![object.as_bytes(), life])? {
        return Err(Error::Missing);
    }
    let sql = "SELECT count(*) FROM contexts WHERE object = ?1";
    let count: u32 = c.prepare_cached(sql)?.query_row([object.as_bytes()], |r| r.get(0))?;
    if count >= limit {
        return Err(Error::TooMany { limit });
    }
    let snapshot = row.snapshot.as_ref();
    execute(
        c,
        "INSERT INTO contexts (wasm, base, taken_at, manifest, object, id, binding, language,
            engine, version, cwd, env_vars, created_at, last_used, executions, stale)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        params![
            snapshot.map(|s| &s.wasm),
            snapshot.map(|s| &s.base),
            snapshot.map(|s| s.taken_at),
            snapshot.map(|s| &s.manifest),
            object.as_bytes(),
            row.id,
            row.binding,
            row.language.as_str(),
            row.engine,
            row.version,
            row.cwd,
            to_json(&row.env_vars)?,
            row.created_at,
            row.last_used,
            row.executions.cast_signed(),
            row.stale
        ],
    )?;
    quotas::check(c, table, &owner(c, object)?, &[(QuotaKind::Contexts, 1.0)])?;
    let data = json!({"context": row.id, "language": row.language});
    events::of_object(c, object, EventType::ContextCreated, false, &data)
}

fn owner(c: &Connection, object: &ObjectId) -> Result<Owner> {
    let sql = "SELECT owner FROM sandboxes WHERE object = ?1";
    Ok(c.prepare_cached(sql)?.query_row([object.as_bytes()], |row| parse(row, 0))?)
}

pub(crate) const LIST: &str = "WHERE object = ?1 ORDER BY created_at, key";
const ONE: &str = "WHERE object = ?1 AND id = ?2";

pub(crate) fn select(rest: &str) -> String {
    format!("SELECT {COLUMNS} FROM contexts {rest}")
}

pub(crate) fn list(c: &Connection, object: &ObjectId) -> Result<Vec<ContextRow>> {
    let mut statement = c.prepare_cached(&select(LIST))?;
    let rows = statement.query_map([object.as_bytes()], context)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn get(c: &Connection, object: &ObjectId, id: &str) -> Result<Option<ContextRow>> {
    let mut statement = c.prepare_cached(&select(ONE))?;
    Ok(statement.query_row(params![object.as_bytes(), id], context).optional()?)
}

/// Saves what an execution left, and that the sandbox was active. `false`: the context is gone, or goes with its sandbox.
pub(crate) fn save(
    c: &Connection,
    object: &ObjectId,
    id: &str,
    state: &ContextState,
    pack: Option<&WrittenPack>,
) -> Result<bool> {
    let snapshot = state.snapshot.as_ref();
    let update = |build: &str, only: &str| {
        let sql = format!(
            "UPDATE contexts SET {build} taken_at = ?3, manifest = ?4, version = ?7,
                cwd = ?8, executions = ?9, last_used = max(last_used, ?10), stale = 0
             WHERE object = ?5 AND id = ?6 {only} AND NOT EXISTS (
                SELECT 1 FROM sandboxes WHERE object = ?5
                    AND (destroying_at IS NOT NULL OR destroyed_at IS NOT NULL))"
        );
        let values = params![
            snapshot.map(|s| &s.wasm),
            snapshot.map(|s| &s.base),
            snapshot.map(|s| s.taken_at),
            snapshot.map(|s| &s.manifest),
            object.as_bytes(),
            id,
            state.version,
            state.cwd,
            state.executions.cast_signed(),
            state.last_used
        ];
        execute(c, &sql, values)
    };
    // As a rule the build stays, and its index need not be written.
    let changed = match update("", "AND wasm IS ?1 AND base IS ?2")? {
        0 => update("wasm = ?1, base = ?2,", "")?,
        changed => changed,
    };
    if changed > 0 {
        if let Some(pack) = pack {
            written(c, object, id, pack)?;
        }
        touch(c, object, state.last_used)?;
        let data = json!({"context": id, "executions": state.executions});
        events::of_object(c, object, EventType::ContextSnapshot, false, &data)?;
    }
    Ok(changed > 0)
}

/// What a file held before does not count any more.
fn written(c: &Connection, object: &ObjectId, id: &str, pack: &WrittenPack) -> Result<()> {
    match &pack.bytes {
        Some(bytes) => execute(
            c,
            "INSERT OR REPLACE INTO fresh_packs (context, file, hash, boot, bytes)
             SELECT key, ?3, ?4, ?5, ?6 FROM contexts WHERE object = ?1 AND id = ?2",
            params![object.as_bytes(), id, pack.file, pack.hash, pack.boot, bytes],
        )?,
        None => execute(
            c,
            "DELETE FROM fresh_packs WHERE file = ?3
                AND context = (SELECT key FROM contexts WHERE object = ?1 AND id = ?2)",
            params![object.as_bytes(), id, pack.file],
        )?,
    };
    Ok(())
}

pub(crate) const FRESH: &str = "SELECT contexts.object, contexts.id, file, hash, boot
     FROM fresh_packs JOIN contexts ON contexts.key = fresh_packs.context";

pub(crate) fn fresh(c: &Connection) -> Result<Vec<FreshPack>> {
    let mut statement = c.prepare_cached(FRESH)?;
    let rows = statement.query_map([], |row| {
        Ok(FreshPack {
            object: rows::object(row, 0)?,
            context: row.get(1)?,
            file: row.get(2)?,
            hash: row.get(3)?,
            boot: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

const THIS: &str = "context = (SELECT key FROM contexts WHERE object = ?1 AND id = ?2)
     AND file = ?3 AND hash = ?4";

pub(crate) fn fresh_bytes(c: &Connection, pack: &FreshPack) -> Result<Option<Vec<u8>>> {
    let mut statement = c.prepare_cached(&format!("SELECT bytes FROM fresh_packs WHERE {THIS}"))?;
    let params = params![pack.object.as_bytes(), pack.context, pack.file, pack.hash];
    Ok(statement.query_row(params, |row| row.get(0)).optional()?)
}

pub(crate) fn synced(c: &Connection, packs: &[FreshPack]) -> Result<()> {
    let sql = format!("DELETE FROM fresh_packs WHERE {THIS}");
    for pack in packs {
        execute(c, &sql, params![pack.object.as_bytes(), pack.context, pack.file, pack.hash])?;
    }
    Ok(())
}

pub(crate) fn lost(c: &Connection, packs: &[FreshPack]) -> Result<()> {
    let sql = format!("UPDATE fresh_packs SET boot = '' WHERE {THIS}");
    for pack in packs {
        execute(c, &sql, params![pack.object.as_bytes(), pack.context, pack.file, pack.hash])?;
    }
    Ok(())
}

/// Notes that an execution was not saved: it was rolled back, or (`stale`) could not be.
pub(crate) fn unsaved(
    c: &Connection,
    object: &ObjectId,
    id: &str,
    at: i64,
    stale: bool,
) -> Result<bool> {
    let sql = "UPDATE contexts SET last_used = max(last_used, ?3), stale = max(stale, ?4)
         WHERE object = ?1 AND id = ?2";
    let changed = execute(c, sql, params![object.as_bytes(), id, at, stale])?;
    if changed > 0 {
        touch(c, object, at)?;
    }
    Ok(changed > 0)
}

/// Tables whose rows go with their context.
const OF_CONTEXTS: [&str; 2] = ["checkpoints", "fresh_packs"];

pub(crate) fn delete(c: &Connection, object: &ObjectId, id: &str) -> Result<bool> {
    for table in OF_CONTEXTS {
        let sql = format!(
            "DELETE FROM {table}
             WHERE context = (SELECT key FROM contexts WHERE object = ?1 AND id = ?2)"
        );
        execute(c, &sql, params![object.as_bytes(), id])?;
    }
    let sql = "DELETE FROM contexts WHERE object = ?1 AND id = ?2 RETURNING language";
    let params = params![object.as_bytes(), id];
    let language = c.prepare_cached(sql)?.query_row(params, |row| row.get::<_, String>(0));
    let Some(language) = language.optional()? else { return Ok(false) };
    let data = json!({"context": id, "language": language});
    events::of_object(c, object, EventType::ContextDeleted, false, &data)?;
    Ok(true)
}

/// All contexts of an object go, with what belongs to them.
pub(crate) fn drop_all(c: &Connection, object: &ObjectId) -> Result<()> {
    for table in OF_CONTEXTS {
        let sql = format!(
            "DELETE FROM {table} WHERE context IN (SELECT key FROM contexts WHERE object = ?1)"
        );
        execute(c, &sql, [object.as_bytes()])?;
    }
    execute(c, "DELETE FROM contexts WHERE object = ?1", [object.as_bytes()])?;
    Ok(())
}

pub(crate) const BUILDS: &str = "SELECT wasm, base FROM contexts WHERE wasm IS NOT NULL
     UNION SELECT wasm, base FROM checkpoints WHERE wasm IS NOT NULL";

pub(crate) fn builds(c: &Connection) -> Result<Vec<(String, String)>> {
    let mut statement = c.prepare_cached(BUILDS)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The first four columns of a row.
pub(crate) fn snapshot(row: &Row<'_>) -> rusqlite::Result<Option<SnapshotRow>> {
    let Some(wasm) = row.get(0)? else { return Ok(None) };
    let (base, taken_at, manifest) = (row.get(1)?, row.get(2)?, row.get(3)?);
    Ok(Some(SnapshotRow { wasm, base, taken_at, manifest }))
}

fn context(row: &Row<'_>) -> rusqlite::Result<ContextRow> {
    Ok(ContextRow {
        snapshot: snapshot(row)?,
        id: row.get(4)?,
        binding: row.get(5)?,
        language: language(row, 6)?,
        engine: row.get(7)?,
        version: row.get(8)?,
        cwd: row.get(9)?,
        env_vars: json(row, 10)?,
        created_at: row.get(11)?,
        last_used: row.get(12)?,
        executions: row.get::<_, i64>(13)?.cast_unsigned(),
        stale: row.get(14)?,
    })
}

fn language(row: &Row<'_>, column: usize) -> rusqlite::Result<Language> {
    let text = row.get_ref(column)?.as_str()?;
    [Language::Python, Language::Javascript, Language::Ruby, Language::Perl]
        .into_iter()
        .find(|language| language.as_str() == text)
        .ok_or_else(|| bad_enum(column, text))
}
