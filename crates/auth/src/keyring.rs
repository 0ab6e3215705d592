//! The keyring: tokens, made, revoked and recognised.

mod memory;

use crate::errors;
use crate::jwt::{self, Issuer};
use crate::secret::{self, Digest};
use constant_time_eq::constant_time_eq_32;
use memory::Memory;
use objects::Clock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use store::{Store, TokenRow};
use tokio::sync::{Notify, Semaphore, watch};
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

/// Tokens that are looked for in the store at once. Whoever guesses sends one that is not remembered
/// each time; of the store's few readers the others stay with those who got in.
const LOOKED_FOR: usize = 1;

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
    lookups: Semaphore,
    /// How many revocations there were; tells those who wait for one.
    revocations: watch::Sender<u64>,
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
            lookups: Semaphore::new(LOOKED_FOR),
            revocations: watch::Sender::default(),
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
        if let Ok(grant) = self.remembered(&digest, now) {
            return Ok(grant);
        }
        let _turn = self.inner.lookups.acquire().await;
        // Somebody with the same one may have had the turn before.
        let age = match self.remembered(&digest, now) {
            Ok(grant) => return Ok(grant),
            Err(age) => age,
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

    /// Who bears it, where that is remembered; else how old the memory is.
    fn remembered(&self, digest: &Digest, now: i64) -> std::result::Result<Grant, u64> {
        let mut memory = self.inner.memory();
        let Some((grant, noted)) = memory.get(digest, now) else { return Err(memory.age()) };
        drop(memory);
        if noted {
            self.inner.wake.notify_one();
        }
        Ok(grant)
    }

    /// How many tokens were revoked so far: to be read before a token is recognised that
    /// [`Keyring::revoked`] is to be asked about.
    pub fn revocations(&self) -> u64 {
        *self.inner.revocations.borrow()
    }

    /// Waits until this token, which was good when there were `since` revocations, is revoked; what
    /// its bearer is told then. A token that only expires is waited for in vain, and so is one of an
    /// issuer. Cancel-safe.
    pub async fn revoked(&self, token: &str, since: u64) -> Error {
        if !secret::is_token(token) {
            return std::future::pending().await;
        }
        let digest = secret::digest(token);
        let (mut revocations, mut seen) = (self.inner.revocations.subscribe(), since);
        loop {
            let now = *revocations.borrow_and_update();
            if now != seen {
                seen = now;
                if self.is_revoked(&digest).await {
                    return errors::bad_token();
                }
            }
            if revocations.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn is_revoked(&self, digest: &Digest) -> bool {
        // What is remembered was not revoked since.
        if self.inner.memory().knows(digest) {
            return false;
        }
        match self.inner.store.find_token(digest).await {
            Ok(row) => row.is_none_or(|row| row.revoked_at.is_some()),
            // It was good once; a store that cannot tell makes it no worse.
            Err(_) => false,
        }
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
                    inner.store.note_quota(owner, None, &error);
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
            inner.revocations.send_modify(|n| *n += 1);
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
