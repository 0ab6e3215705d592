//! Start, stop, destroy, expire: what moves the record. Each stop of a generation is recorded
//! once, the first one counts, and no generation ends without one.

use super::rows::{execute, load, to_json};
use super::sandboxes::{ensure, there};
use super::{contexts, events, labels, outbox, quotas};
use crate::{Error, Placement, Result, SandboxRow, StopRecord};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;
use std::collections::BTreeMap;
use types::{Cause, EventType, ObjectId, QuotaKind, QuotaTable, SandboxName, Settings, State};

/// A stop, and the text for the outbox.
pub(crate) type Stopping = Option<(StopRecord, Option<String>)>;

pub(crate) fn start(
    c: &Connection,
    table: &QuotaTable,
    name: &SandboxName,
    new_settings: &Settings,
    now_ms: i64,
    alarm_at: Option<i64>,
) -> Result<SandboxRow> {
    let none = BTreeMap::new();
    if ensure(c, name, new_settings, &none, &none, now_ms, alarm_at)? {
        quotas::check(c, table, &name.owner, &quotas::NEW)?;
    }
    let object = name.object_id();
    let row = there(load(c, &object)?)?;
    if row.destroying {
        return Err(Error::Destroying);
    }
    if row.record.as_ref().is_some_and(|r| r.state == State::Running) {
        return Err(Error::AlreadyRunning);
    }
    let limits = row.settings.limits;
    let (memory, vcpu) = (i64::try_from(limits.memory_mib).unwrap_or(i64::MAX), limits.vcpu);
    execute(
        c,
        "UPDATE sandboxes SET generation = generation + 1, state = 'running',
            starts = starts + 1, started_at = ?2, record_activity = ?2,
            last_activity = max(last_activity, ?2), stopped_at = NULL, reason = NULL,
            exit_code = NULL, cause = NULL, alarm_at = ?3, expired = 0, placement = ?4,
            run_memory = ?5, run_vcpu = ?6
         WHERE object = ?1",
        params![
            object.as_bytes(),
            now_ms,
            alarm_at,
            to_json(&Placement::of(&row.settings))?,
            memory,
            (vcpu * 1000.0).round() as i64
        ],
    )?;
    let added = [
        (QuotaKind::Running, 1.0),
        (QuotaKind::Memory, memory as f64),
        (QuotaKind::Vcpu, vcpu),
        (QuotaKind::WorkspaceBytes, 0.0),
    ];
    quotas::check(c, table, &name.owner, &added)?;
    let started = there(load(c, &object)?)?;
    if row.expired {
        events::of_object(c, &object, EventType::SandboxRevived, false, &json!({}))?;
    }
    let starts = started.record.as_ref().map(|record| record.starts);
    let data = json!({"image": started.settings.image, "starts": starts});
    events::of_object(c, &object, EventType::SandboxStarted, true, &data)?;
    Ok(started)
}

pub(crate) fn stop(
    c: &Connection,
    object: &ObjectId,
    stop: &StopRecord,
    payload: Option<&str>,
    alarm_at: Option<i64>,
) -> Result<bool> {
    let stopped = record_stop(c, object, stop, payload)?;
    if stopped {
        super::sandboxes::set_alarm(c, object, alarm_at)?;
    }
    Ok(stopped)
}

fn record_stop(
    c: &Connection,
    object: &ObjectId,
    stop: &StopRecord,
    payload: Option<&str>,
) -> Result<bool> {
    let changed = execute(
        c,
        "UPDATE sandboxes SET state = 'stopped', stopped_at = ?3, reason = ?4, exit_code = ?5,
            cause = ?6
         WHERE object = ?1 AND generation = ?2 AND state = 'running' AND destroyed_at IS NULL",
        params![
            object.as_bytes(),
            stop.generation.cast_signed(),
            stop.stopped_at,
            stop.reason,
            stop.exit_code,
            stop.cause.as_str()
        ],
    )?;
    if changed == 0 {
        return Ok(false);
    }
    let started_at = "SELECT started_at FROM sandboxes WHERE object = ?1";
    let started_at: Option<i64> =
        c.prepare_cached(started_at)?.query_row([object.as_bytes()], |r| r.get(0))?;
    let data = json!({
        "reason": stop.reason, "cause": stop.cause, "exitCode": stop.exit_code,
        "startedAt": started_at, "stoppedAt": stop.stopped_at,
    });
    events::of_object(c, object, EventType::SandboxStopped, true, &data)?;
    execute(
        c,
        "INSERT INTO stops (object, generation, started_at, stopped_at, reason, exit_code, cause)
         SELECT object, generation, started_at, stopped_at, reason, exit_code, cause
         FROM sandboxes WHERE object = ?1",
        [object.as_bytes()],
    )?;
    if let Some(payload) = payload {
        outbox::add(c, payload)?;
    }
    Ok(true)
}

pub(crate) fn begin_destroy(c: &Connection, object: &ObjectId, now_ms: i64) -> Result<bool> {
    let sql = "UPDATE sandboxes SET destroying_at = coalesce(destroying_at, ?2)
         WHERE object = ?1 AND destroyed_at IS NULL";
    Ok(execute(c, sql, params![object.as_bytes(), now_ms])? > 0)
}

pub(crate) fn finish_destroy(c: &Connection, object: &ObjectId, stop: &Stopping) -> Result<()> {
    let sql = "SELECT coalesce(destroying_at, last_activity) FROM sandboxes
         WHERE object = ?1 AND destroyed_at IS NULL";
    let found = c.prepare_cached(sql)?.query_row([object.as_bytes()], |r| r.get(0)).optional()?;
    let Some(mut at): Option<i64> = found else { return Ok(()) };
    if let Some((stop, _)) = stop {
        at = at.max(stop.stopped_at);
    }
    end_instance(c, object, stop, Cause::Destroyed, at)?;
    drop_executions(c, object)?;
    contexts::drop_all(c, object)?;
    labels::drop_all(c, object)?;
    execute(
        c,
        "DELETE FROM configurations
         WHERE sandbox = (SELECT key FROM sandboxes WHERE object = ?1)",
        [object.as_bytes()],
    )?;
    execute(
        c,
        "UPDATE sandboxes SET destroyed_at = ?2, destroying_at = NULL, alarm_at = NULL
         WHERE object = ?1",
        params![object.as_bytes(), at],
    )?;
    events::of_object(c, object, EventType::SandboxDestroyed, false, &json!({}))
}

pub(crate) fn expire(
    c: &Connection,
    object: &ObjectId,
    stop: &Stopping,
    now_ms: i64,
) -> Result<()> {
    if load(c, object)?.is_none() {
        return Ok(());
    }
    end_instance(c, object, stop, Cause::Expired, now_ms)?;
    drop_executions(c, object)?;
    contexts::drop_all(c, object)?;
    execute(
        c,
        "UPDATE configurations SET env_vars = '{}'
         WHERE sandbox = (SELECT key FROM sandboxes WHERE object = ?1)",
        [object.as_bytes()],
    )?;
    let sql = "UPDATE sandboxes SET alarm_at = NULL, expired = 1, workspace_bytes = 0
         WHERE object = ?1";
    execute(c, sql, [object.as_bytes()])?;
    events::of_object(c, object, EventType::SandboxExpired, false, &json!({}))
}

/// Records the stop that came along. Where none fits and the record still says running, one is
/// made up: what has gone cannot be left running for ever.
fn end_instance(
    c: &Connection,
    object: &ObjectId,
    stop: &Stopping,
    cause: Cause,
    at: i64,
) -> Result<()> {
    if let Some((stop, payload)) = stop {
        record_stop(c, object, stop, payload.as_deref())?;
    }
    let sql = "SELECT generation FROM sandboxes WHERE object = ?1 AND state = 'running'";
    let running = c.prepare_cached(sql)?.query_row([object.as_bytes()], |r| r.get(0)).optional()?;
    let Some(generation): Option<i64> = running else { return Ok(()) };
    tracing::error!(%object, generation, ?cause, "no stop of the running instance was given");
    let made_up = StopRecord {
        generation: generation.cast_unsigned(),
        reason: cause.reason().to_owned(),
        exit_code: None,
        cause,
        stopped_at: at,
    };
    record_stop(c, object, &made_up, None)?;
    Ok(())
}

/// Executions go, and late news of them is not taken any more.
fn drop_executions(c: &Connection, object: &ObjectId) -> Result<()> {
    execute(c, "DELETE FROM executions WHERE object = ?1", [object.as_bytes()])?;
    execute(
        c,
        "UPDATE sandboxes SET history_floor = generation, executions = 0 WHERE object = ?1",
        [object.as_bytes()],
    )?;
    Ok(())
}
