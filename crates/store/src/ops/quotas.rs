//! What owners have, and whether that is more than they may. A limit is looked at after the change
//! that it bounds, in the same savepoint: what is too much is rolled back, and two at once are one
//! after the other.

use super::outbox::{meta, set_meta};
use super::tokens;
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, Row};
use types::{ObjectId, Owner, QuotaExceeded, QuotaKind, QuotaScope, QuotaTable, QuotaUse, Quotas};

/// The row of all owners together; no owner has this name.
const MACHINE: &str = "";

pub(crate) const USAGE: &str =
    "SELECT sandboxes, running, memory_mib, vcpu, workspace_bytes, contexts
     FROM usage WHERE owner = ?1";

/// Where the limits of the last server are kept.
const KEPT: &str = "store.quotas";

/// Keeps the limits for who opens the store without a server.
pub(crate) fn keep(c: &Connection, table: &str) -> Result<()> {
    if meta(c, KEPT)?.as_deref() == Some(table) { Ok(()) } else { set_meta(c, KEPT, table) }
}

/// Those that were kept last.
pub(crate) fn kept(c: &Connection) -> Result<Option<String>> {
    meta(c, KEPT)
}

/// What an owner has.
pub(crate) fn usage(c: &Connection, owner: &Owner, now_ms: i64) -> Result<QuotaUse> {
    Ok(QuotaUse { tokens: tokens::count(c, Some(owner), now_ms)?, ..usage_of(c, owner.as_str())? })
}

/// What all owners have together.
pub(crate) fn usage_of_all(c: &Connection) -> Result<QuotaUse> {
    usage_of(c, MACHINE)
}

fn usage_of(c: &Connection, owner: &str) -> Result<QuotaUse> {
    let mut statement = c.prepare_cached(USAGE)?;
    Ok(statement.query_row([owner], row).optional()?.unwrap_or_default())
}

fn row(row: &Row<'_>) -> rusqlite::Result<QuotaUse> {
    // Never below zero; what is not true of the file must not be a panic.
    let number = |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.max(0) as u64);
    Ok(QuotaUse {
        sandboxes: number(0)?,
        running: number(1)?,
        memory_mib: number(2)?,
        vcpu: number(3)? as f64 / 1000.0,
        workspace_bytes: number(4)?,
        contexts: number(5)?,
        tokens: 0,
    })
}

pub(crate) const OWN: &str =
    "SELECT workspace_bytes FROM sandboxes WHERE object = ?1 AND destroyed_at IS NULL";

/// The bytes in workspaces of an owner, and of all, without those of one sandbox.
pub(crate) fn elsewhere(c: &Connection, owner: &Owner, object: &ObjectId) -> Result<(u64, u64)> {
    // One snapshot of the file: the sandbox is in all of them or in none.
    let read = c.unchecked_transaction()?;
    let (of_owner, of_all) = (usage_of(&read, owner.as_str())?, usage_of(&read, MACHINE)?);
    let own = read.prepare_cached(OWN)?.query_row([object.as_bytes()], |row| row.get::<_, i64>(0));
    let own = own.optional()?.unwrap_or(0).max(0) as u64;
    let besides = |all: QuotaUse| all.workspace_bytes.saturating_sub(own);
    Ok((besides(of_owner), besides(of_all)))
}

/// What a change adds, each with how much.
pub(crate) type Added = [(QuotaKind, f64)];

/// What a new sandbox adds.
pub(crate) const NEW: [(QuotaKind, f64); 1] = [(QuotaKind::Sandboxes, 1.0)];

/// Refuses a change that led over a limit. The owner's own come first.
pub(crate) fn check(
    c: &Connection,
    table: &QuotaTable,
    owner: &Owner,
    added: &Added,
) -> Result<()> {
    let scopes = [
        (QuotaScope::Owner, table.of(owner), owner.as_str()),
        (QuotaScope::Machine, &table.machine, MACHINE),
    ];
    for (scope, limits, row) in scopes {
        if added.iter().all(|(what, _)| limit(limits, *what).is_none()) {
            continue;
        }
        let now = usage_of(c, row)?;
        for (what, needed) in added {
            let Some(limit) = limit(limits, *what) else { continue };
            let after = count(&now, *what);
            let over = match what {
                // They grow without asking, so it is whether there is room at all.
                QuotaKind::WorkspaceBytes => after >= limit,
                _ => after > limit,
            };
            if over {
                let (what, needed) = (*what, *needed);
                let current = after - needed;
                let refused = QuotaExceeded { what, scope, limit, current, needed };
                return Err(Error::Quota(refused));
            }
        }
    }
    Ok(())
}

/// Refuses a new token, of nobody in particular where it has a scope. Ends of tokens come without
/// a change of the file, so that these are counted and not kept in `usage`.
pub(crate) fn check_token(
    c: &Connection,
    table: &QuotaTable,
    owner: Option<&Owner>,
    now_ms: i64,
) -> Result<()> {
    let own = owner.and_then(|owner| table.of(owner).tokens);
    for (scope, limit, owner) in
        [(QuotaScope::Owner, own, owner), (QuotaScope::Machine, table.machine.tokens, None)]
    {
        let Some(limit) = limit else { continue };
        let after = tokens::count(c, owner, now_ms)?;
        if after > limit {
            let (limit, current) = (limit as f64, after.saturating_sub(1) as f64);
            let what = QuotaKind::Tokens;
            return Err(Error::Quota(QuotaExceeded { what, scope, limit, current, needed: 1.0 }));
        }
    }
    Ok(())
}

fn limit(limits: &Quotas, what: QuotaKind) -> Option<f64> {
    let whole = |limit: Option<u64>| limit.map(|limit| limit as f64);
    match what {
        QuotaKind::Sandboxes => whole(limits.sandboxes),
        QuotaKind::Running => whole(limits.running),
        QuotaKind::Memory => whole(limits.memory_mib),
        // As it is counted, so that ten tenths are one.
        QuotaKind::Vcpu => limits.vcpu.map(|cores| (cores * 1000.0).round() / 1000.0),
        QuotaKind::WorkspaceBytes => whole(limits.workspace_bytes),
        QuotaKind::Contexts => whole(limits.contexts),
        QuotaKind::Tokens => whole(limits.tokens),
        QuotaKind::Requests => limits.requests_per_second,
    }
}

fn count(now: &QuotaUse, what: QuotaKind) -> f64 {
    match what {
        QuotaKind::Sandboxes => now.sandboxes as f64,
        QuotaKind::Running => now.running as f64,
        QuotaKind::Memory => now.memory_mib as f64,
        QuotaKind::Vcpu => now.vcpu,
        QuotaKind::WorkspaceBytes => now.workspace_bytes as f64,
        QuotaKind::Contexts => now.contexts as f64,
        // Neither is looked at here.
        QuotaKind::Tokens | QuotaKind::Requests => 0.0,
    }
}
