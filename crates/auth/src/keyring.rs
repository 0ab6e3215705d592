//! The keyring: tokens, made, revoked and recognised.

mod memory;

use crate::jwt::{self, Issuer};
use crate::{errors, secret};
use constant_time_eq::constant_time_eq_32;
use memory::Memory;
use objects::Clock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use store::{Store, TokenRow};
use tokio::sync::Notify;
use types::{
    Error, ErrorCode, Grant, NewToken, Result, TokenInfo, TokenPage, TokenRequest, iso8601,
};

/// Longest page.
const PAGE: u32 = 1000;
/// Uses of tokens gather this long before they are written.
const GATHER: Duration = Duration::from_secs(1);
/// Tokens that ended longer ago than this are forgotten, ms.
const KEPT: i64 = 90 * 86_400_000;
/// Tokens forgotten at once, of each kind.
const SWEEP: u32 = 1000;
/// How often, ms, at most.
const SWEEP_EVERY: i64 = 3_600_000;

/// How a keyring goes by.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Set aside that callers prove who they are: `serve --open`.
    pub open: bool,
    /// What time it is.
    pub clock: Clock,
    /// An outside issuer whose tokens are taken as well.
    pub issuer: Option<jwt::Options>,
}

/// Why there is no keyring.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot tell.
    #[error("{0}")]
    Store(types::Error),
    /// The issuer's keys cannot be used.
    #[error("the issuer of tokens cannot be trusted")]
    Issuer(#[from] jwt::SourceError),
}

/// The tokens of a data directory. Cheap to clone.
#[derive(Clone)]
pub struct Keyring {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    clock: Clock,
    open: bool,
    required: AtomicBool,
    issuer: Option<Issuer>,
    memory: Mutex<Memory>,
    wake: Arc<Notify>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyring").finish_non_exhaustive()
    }
}

impl Keyring {
    /// The keyring of `store`. An issuer is as good as a token: from then on callers have to prove
    /// who they are.
    pub async fn open(store: Store, options: Options) -> Result<Self, OpenError> {
        let failed = |error| OpenError::Store(errors::of_store(error));
        let issuer = match options.issuer {
            Some(issuer) => Some(Issuer::new(issuer).await?),
            None => None,
        };
        if issuer.is_some() {
            store.require_auth().await.map_err(failed)?;
        }
        let required = store.auth_required().await.map_err(failed)?;
        let inner = Arc::new(Inner {
            store,
            clock: options.clock,
            open: options.open,
            required: AtomicBool::new(required),
            issuer,
            memory: Mutex::default(),
            wake: Arc::default(),
        });
        tokio::spawn(keep_books(Arc::downgrade(&inner), inner.wake.clone()));
        Ok(Self { inner })
    }

    /// Whether callers have to prove who they are. Once true it stays so.
    pub fn asks(&self) -> bool {
        !self.inner.open && self.is_set_up()
    }

    /// Whether there is, or was, a token, whatever `--open` says.
    pub fn is_set_up(&self) -> bool {
        self.inner.required.load(Ordering::Acquire)
    }

    /// Who bears this token. Errors: `UNAUTHENTICATED`, `UNAVAILABLE`, `INTERNAL`.
    pub async fn recognise(&self, token: &str) -> Result<Grant> {
        let now = self.inner.clock.now_ms();
        if !secret::is_token(token) {
            return match &self.inner.issuer {
                Some(issuer) if Issuer::is_token(token) => {
                    issuer.owner(token, &secret::digest(token), now).await.map(Grant::Owner)
                }
                _ => Err(errors::bad_token()),
            };
        }
        let digest = secret::digest(token);
        let age = {
            let mut memory = self.inner.memory();
            if let Some((grant, noted)) = memory.get(&digest, now) {
                drop(memory);
                if noted {
                    self.inner.wake.notify_one();
                }
                return Ok(grant);
            }
            memory.age()
        };
        let row = self.inner.store.find_token(&digest).await.map_err(errors::of_store)?;
        // The index compared digests, which tell nothing of secrets; this settles it.
        let row = row.filter(|row| constant_time_eq_32(&row.digest, &digest));
        let valid =
            |row: &TokenRow| row.revoked_at.is_none() && row.expires_at.is_none_or(|end| now < end);
        let row = row.filter(valid).ok_or_else(errors::bad_token)?;
        let grant = row.grant.clone();
        // Unless something was revoked since the read began.
        self.inner.memory().put(age, row, now);
        self.inner.wake.notify_one();
        Ok(grant)
    }

    /// Makes a token. It is on the disk when this ends, and from then on tokens are asked for.
    /// Errors: `VALIDATION_FAILED`, `QUOTA_EXCEEDED`, `STORAGE_FULL`, `UNAVAILABLE`, `INTERNAL`.
    pub async fn create(&self, request: &TokenRequest) -> Result<NewToken> {
        let grant = request.grant()?;
        let (token, id) = secret::generate().map_err(|e| errors::internal("making a token", e))?;
        let created_at = self.inner.clock.now_ms();
        let row = TokenRow {
            id,
            digest: secret::digest(&token),
            grant,
            label: request.label.clone(),
            created_at,
            expires_at: request.expires_in_ms.map(|ms| created_at.saturating_add_unsigned(ms)),
            revoked_at: None,
            last_used: None,
        };
        let info = info(&row);
        let inner = self.inner.clone();
        // By itself: a caller that goes away must not keep the server open once the token is there.
        finished(tokio::spawn(async move {
            inner.store.create_token(&row).await.map_err(|error| {
                let error = errors::of_store(error);
                // A token with a scope has no owner who could be told.
                if let Some(owner) = row.grant.owner() {
                    inner.store.note_quota(owner, &error);
                }
                error
            })?;
            inner.required.store(true, Ordering::Release);
            tracing::info!(token = row.id, "a token was made");
            Ok(())
        }))
        .await?;
        Ok(NewToken { token, info })
    }

    /// A page of all tokens, oldest first. Errors: `VALIDATION_FAILED` of a cursor that is none,
    /// `UNAVAILABLE`, `INTERNAL`.
    pub async fn list(&self, limit: u32, cursor: Option<&str>) -> Result<TokenPage> {
        let limit = limit.clamp(1, PAGE);
        let after = match cursor {
            None => 0,
            Some(text) => key(text).ok_or_else(|| {
                Error::invalid(
                    "cursor",
                    "cursor is not one of this list: take nextCursor of a page",
                )
            })?,
        };
        // One more than asked tells whether there is a next page.
        let mut rows = self.inner.store.tokens(after, limit + 1).await.map_err(errors::of_store)?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let next_cursor = rows.last().filter(|_| more).map(|(key, _)| key.to_string());
        Ok(TokenPage { tokens: rows.iter().map(|(_, row)| info(row)).collect(), next_cursor })
    }

    /// Revokes a token, by id. It counts when this ends; once revoked it stays so. Errors:
    /// `TOKEN_NOT_FOUND`, `UNAVAILABLE`, `INTERNAL`.
    pub async fn revoke(&self, id: &str) -> Result<()> {
        let (inner, id) = (self.inner.clone(), id.to_owned());
        // By itself: a caller that goes away must not leave it remembered as valid.
        finished(tokio::spawn(async move {
            let now = inner.clock.now_ms();
            let digest = inner.store.revoke_token(&id, now).await.map_err(errors::of_store)?;
            let none = || Error::new(ErrorCode::TokenNotFound, "there is no such token");
            inner.memory().forget(&digest.ok_or_else(none)?);
            tracing::info!(token = id, "a token was revoked");
            Ok(())
        }))
        .await
    }

    /// Writes which tokens were used.
    pub async fn flush(&self) {
        self.inner.flush().await;
    }
}

impl Inner {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn flush(&self) {
        let used = self.memory().take_used();
        if used.is_empty() {
            return;
        }
        if let Err(error) = self.store.tokens_used(used).await {
            // They are noted again when they are next used.
            tracing::debug!(%error, "uses of tokens were not written");
        }
    }

    async fn sweep(&self, now: i64) {
        loop {
            match self.store.sweep_tokens(now - KEPT, SWEEP).await {
                Ok(gone) if gone >= u64::from(SWEEP) => {}
                Ok(_) => return,
                Err(error) => return tracing::debug!(%error, "old tokens were not swept"),
            }
        }
    }
}

/// Writes uses as they come, and forgets old tokens, until the keyring is gone.
async fn keep_books(keyring: Weak<Inner>, wake: Arc<Notify>) {
    let mut swept = i64::MIN;
    loop {
        {
            let Some(inner) = keyring.upgrade() else { return };
            let now = inner.clock.now_ms();
            if now.saturating_sub(swept) >= SWEEP_EVERY {
                swept = now;
                inner.sweep(now).await;
            }
            inner.flush().await;
        }
        wake.notified().await;
        tokio::time::sleep(GATHER).await;
    }
}

async fn finished<T>(task: tokio::task::JoinHandle<Result<T>>) -> Result<T> {
    task.await.unwrap_or_else(|error| Err(errors::internal("a task of the keyring", error)))
}

/// The key that a cursor names.
fn key(cursor: &str) -> Option<i64> {
    let digits = !cursor.is_empty() && cursor.bytes().all(|b| b.is_ascii_digit());
    cursor.parse().ok().filter(|_| digits)
}

fn info(row: &TokenRow) -> TokenInfo {
    TokenInfo {
        id: row.id.clone(),
        owner: row.grant.owner().cloned(),
        scope: row.grant.scope(),
        label: row.label.clone(),
        created_at: iso8601(row.created_at),
        expires_at: row.expires_at.map(iso8601),
        revoked_at: row.revoked_at.map(iso8601),
        last_used_at: row.last_used.map(iso8601),
    }
}

#[cfg(test)]
mod tests;
