//! Making and changing sandboxes, their alarms and their activity.

use super::rows::{execute, load, to_json};
use super::{events, labels};
use crate::{Error, Result, SandboxRow};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::{EventType, ObjectId, SandboxName, Settings};

type Vars = BTreeMap<String, String>;

/// Makes the sandbox, over its tombstone where there is one, unless it is there.
pub(crate) fn ensure(
    c: &Connection,
    name: &SandboxName,
    settings: &Settings,
    env_vars: &Vars,
    labels: &Vars,
    now_ms: i64,
    alarm_at: Option<i64>,
) -> Result<bool> {
    let object = name.object_id();
    let changed = execute(
        c,
        "INSERT INTO sandboxes (object, owner, id, created_at, last_activity, image, alarm_at)
         VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)
         ON CONFLICT (object) DO UPDATE SET
            created_at = excluded.created_at, last_activity = excluded.last_activity,
            image = excluded.image, alarm_at = excluded.alarm_at,
            history_floor = generation, executions = 0, workspace_bytes = 0,
            destroying_at = NULL, destroyed_at = NULL, expired = 0,
            ended_at = coalesce(stopped_at, ended_at), state = NULL, starts = 0,
            record_activity = NULL,
            started_at = NULL, stopped_at = NULL, reason = NULL, exit_code = NULL, cause = NULL
         WHERE destroyed_at IS NOT NULL",
        params![
            object.as_bytes(),
            name.owner.as_str(),
            name.id.as_str(),
            now_ms,
            settings.image,
            alarm_at
        ],
    )?;
    if changed > 0 {
        configure(c, &object, settings, env_vars)?;
        labels::set(c, &object, labels)?;
        let data = json!({"image": settings.image});
        events::of_object(c, &object, EventType::SandboxCreated, false, &data)?;
    }
    Ok(changed > 0)
}

fn configure(c: &Connection, object: &ObjectId, settings: &Settings, vars: &Vars) -> Result<()> {
    execute(
        c,
        "INSERT OR REPLACE INTO configurations (sandbox, settings, env_vars)
         SELECT key, ?2, ?3 FROM sandboxes WHERE object = ?1",
        params![object.as_bytes(), to_json(settings)?, to_json(vars)?],
    )?;
    Ok(())
}

pub(crate) fn create(
    c: &Connection,
    name: &SandboxName,
    settings: &Settings,
    env_vars: &Vars,
    labels: &Vars,
    now_ms: i64,
    alarm_at: Option<i64>,
) -> Result<(bool, SandboxRow)> {
    let made = ensure(c, name, settings, env_vars, labels, now_ms, alarm_at)?;
    Ok((made, there(load(c, &name.object_id())?)?))
}

/// What was just written is there, or the file is at fault.
pub(crate) fn there(row: Option<SandboxRow>) -> Result<SandboxRow> {
    row.ok_or_else(|| Error::from(rusqlite::Error::QueryReturnedNoRows))
}

pub(crate) fn update(
    c: &Connection,
    object: &ObjectId,
    settings: &Settings,
    env_vars: &Vars,
    labels: Option<&Vars>,
    alarm_at: Option<i64>,
) -> Result<Option<SandboxRow>> {
    let before = match load(c, object)? {
        None => return Ok(None),
        Some(row) if row.destroying => return Err(Error::Destroying),
        Some(row) => row,
    };
    execute(
        c,
        // Whoever configures an expired sandbox uses it: more than the entry is there again.
        "UPDATE sandboxes SET image = ?2, alarm_at = ?3, expired = 0 WHERE object = ?1",
        params![object.as_bytes(), settings.image, alarm_at],
    )?;
    configure(c, object, settings, env_vars)?;
    if let Some(labels) = labels {
        labels::set(c, object, labels)?;
    }
    if before.expired {
        events::of_object(c, object, EventType::SandboxRevived, false, &json!({}))?;
    }
    let mut fields = differences(&before, settings, env_vars);
    if labels.is_some_and(|labels| *labels != before.labels) {
        fields.push("labels".to_owned());
    }
    if !fields.is_empty() {
        let data = json!({"fields": fields});
        events::of_object(c, object, EventType::SandboxUpdated, false, &data)?;
    }
    load(c, object)
}

/// Notes how much lies in the workspace. Of a sandbox that is not there: nothing.
pub(crate) fn measured(c: &Connection, object: &ObjectId, bytes: u64) -> Result<()> {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let sql = "UPDATE sandboxes SET workspace_bytes = ?2
         WHERE object = ?1 AND destroyed_at IS NULL AND workspace_bytes <> ?2";
    execute(c, sql, params![object.as_bytes(), bytes])?;
    Ok(())
}

/// The names, as the API has them, of what is another now. Never what it is.
fn differences(before: &SandboxRow, settings: &Settings, vars: &Vars) -> Vec<String> {
    let fields = |settings| match serde_json::to_value(settings) {
        Ok(Value::Object(fields)) => fields,
        // Settings are an object.
        _ => Map::new(),
    };
    let (old, new) = (fields(&before.settings), fields(settings));
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differ = keys.into_iter().filter(|key| old.get(*key) != new.get(*key)).cloned();
    differ.chain((before.env_vars != *vars).then(|| "envVars".to_owned())).collect()
}

pub(crate) fn known(c: &Connection, object: &ObjectId) -> Result<bool> {
    let sql = "SELECT 1 FROM sandboxes WHERE object = ?1";
    Ok(c.prepare_cached(sql)?.exists([object.as_bytes()])?)
}

pub(crate) fn set_alarm(c: &Connection, object: &ObjectId, at: Option<i64>) -> Result<()> {
    let sql = "UPDATE sandboxes SET alarm_at = ?2 WHERE object = ?1 AND destroyed_at IS NULL";
    execute(c, sql, params![object.as_bytes(), at])?;
    Ok(())
}

pub(crate) fn alarm(c: &Connection, object: &ObjectId) -> Result<Option<i64>> {
    let sql = "SELECT alarm_at FROM sandboxes WHERE object = ?1";
    let row = c.prepare_cached(sql)?.query_row([object.as_bytes()], |r| r.get(0)).optional()?;
    Ok(row.flatten())
}

/// Moves the activity forward, that of the record only while it says running.
pub(crate) fn touch(c: &Connection, object: &ObjectId, at: i64) -> Result<()> {
    let sql = "UPDATE sandboxes SET last_activity = max(last_activity, ?2),
            record_activity = CASE state WHEN 'running' THEN max(record_activity, ?2)
                                         ELSE record_activity END
         WHERE object = ?1 AND destroyed_at IS NULL";
    execute(c, sql, params![object.as_bytes(), at])?;
    Ok(())
}
