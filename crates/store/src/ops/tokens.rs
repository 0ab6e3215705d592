//! Tokens, and that the server asks for them.

use super::outbox::{meta, set_meta};
use super::quotas;
use super::rows::{bad_enum, execute, parse};
use crate::{Result, TokenRow};
use rusqlite::{Connection, OptionalExtension, Row, params};
use types::{Grant, Owner, QuotaTable, Scope};

/// Set with the first token, never unset (section 10 of the contract).
const REQUIRED: &str = "authRequired";

const COLUMNS: &str =
    "key, id, digest, owner, scope, label, created_at, expires_at, revoked_at, last_used";

pub(crate) const PAGE: &str = "WHERE key > ?1 ORDER BY key LIMIT ?2";
pub(crate) const ONE: &str = "WHERE digest = ?1";

pub(crate) fn select(rest: &str) -> String {
    format!("SELECT {COLUMNS} FROM tokens {rest}")
}

/// Keeps a token, and that tokens are asked for from now on. Errors: `Quota`.
pub(crate) fn create(c: &Connection, table: &QuotaTable, row: &TokenRow) -> Result<()> {
    execute(
        c,
        "INSERT INTO tokens (id, digest, owner, scope, label, created_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            row.id,
            row.digest,
            row.grant.owner().map(|owner| owner.as_str()),
            row.grant.scope().map(Scope::as_str),
            row.label,
            row.created_at,
            row.expires_at
        ],
    )?;
    quotas::check_token(c, table, row.grant.owner(), row.created_at)?;
    require(c)
}

/// Those that let somebody in at this time. What ends never is behind every time.
const VALID: &str = "revoked_at IS NULL AND ifnull(expires_at, 9223372036854775807) >";

pub(crate) fn count_sql(of_owner: bool) -> String {
    let whose = if of_owner { " AND owner = ?2" } else { "" };
    format!("SELECT count(*) FROM tokens WHERE {VALID} ?1{whose}")
}

/// How many there are that are neither expired nor revoked, of an owner or of all and with scopes.
pub(crate) fn count(c: &Connection, owner: Option<&Owner>, now_ms: i64) -> Result<u64> {
    let mut statement = c.prepare_cached(&count_sql(owner.is_some()))?;
    let counted: i64 = match owner {
        Some(owner) => statement.query_row(params![now_ms, owner.as_str()], |row| row.get(0))?,
        None => statement.query_row([now_ms], |row| row.get(0))?,
    };
    Ok(counted.max(0) as u64)
}

pub(crate) fn require(c: &Connection) -> Result<()> {
    if required(c)? { Ok(()) } else { set_meta(c, REQUIRED, "true") }
}

pub(crate) fn required(c: &Connection) -> Result<bool> {
    Ok(meta(c, REQUIRED)?.is_some())
}

pub(crate) fn find(c: &Connection, digest: &[u8; 32]) -> Result<Option<TokenRow>> {
    let mut statement = c.prepare_cached(&select(ONE))?;
    Ok(statement.query_row([digest], |row| token(row).map(|(_, token)| token)).optional()?)
}

/// Those behind the key `after`, each with its own.
pub(crate) fn page(c: &Connection, after: i64, limit: u32) -> Result<Vec<(i64, TokenRow)>> {
    let mut statement = c.prepare_cached(&select(PAGE))?;
    let rows = statement.query_map([after, limit.into()], token)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Revokes it, the first time; its digest.
pub(crate) fn revoke(c: &Connection, id: &str, at: i64) -> Result<Option<[u8; 32]>> {
    let sql = "UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
    execute(c, sql, params![id, at])?;
    let sql = "SELECT digest FROM tokens WHERE id = ?1";
    Ok(c.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?)
}

pub(crate) fn used(c: &Connection, all: &[(String, i64)]) -> Result<()> {
    let sql = "UPDATE tokens SET last_used = max(ifnull(last_used, 0), ?2) WHERE id = ?1";
    for (id, at) in all {
        execute(c, sql, params![id, at])?;
    }
    Ok(())
}

pub(crate) const REVOKED: &str = "DELETE FROM tokens WHERE key IN (
     SELECT key FROM tokens WHERE revoked_at < ?1 ORDER BY revoked_at LIMIT ?2)";
pub(crate) const EXPIRED: &str = "DELETE FROM tokens WHERE key IN (
     SELECT key FROM tokens WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)";

pub(crate) fn sweep(c: &Connection, before: i64, batch: u32) -> Result<u64> {
    let revoked = execute(c, REVOKED, params![before, batch])?;
    Ok((revoked + execute(c, EXPIRED, params![before, batch])?) as u64)
}

fn token(row: &Row<'_>) -> rusqlite::Result<(i64, TokenRow)> {
    let scope: Option<String> = row.get(4)?;
    let grant = match scope {
        Some(text) => Grant::Scope(text.parse().map_err(|_| bad_enum(4, &text))?),
        None => Grant::Owner(parse(row, 3)?),
    };
    let token = TokenRow {
        id: row.get(1)?,
        digest: row.get(2)?,
        grant,
        label: row.get(5)?,
        created_at: row.get(6)?,
        expires_at: row.get(7)?,
        revoked_at: row.get(8)?,
        last_used: row.get(9)?,
    };
    Ok((row.get(0)?, token))
}
