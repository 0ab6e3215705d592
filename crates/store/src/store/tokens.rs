//! The handle, as far as tokens are concerned.

use super::Store;
use crate::ops::tokens;
use crate::{Result, TokenRow};

impl Store {
    /// Whether callers have to prove who they are: since the first token or issuer, for ever.
    pub async fn auth_required(&self) -> Result<bool> {
        self.read(tokens::required).await
    }

    /// From now on callers have to prove who they are.
    pub async fn require_auth(&self) -> Result<()> {
        self.write(None, false, tokens::require).await
    }

    /// Keeps a token, and in the same commit that callers have to prove who they are.
    ///
    /// Errors: `Quota`.
    pub async fn create_token(&self, row: &TokenRow) -> Result<()> {
        let (row, table) = (row.clone(), self.quotas());
        self.write(None, false, move |c| tokens::create(c, &table, &row)).await
    }

    /// The token whose secret has this SHA-256, revoked and expired ones too.
    pub async fn find_token(&self, digest: &[u8; 32]) -> Result<Option<TokenRow>> {
        let digest = *digest;
        self.read(move |c| tokens::find(c, &digest)).await
    }

    /// Tokens in the order in which they were made, behind the key `after`; each with its key.
    pub async fn tokens(&self, after: i64, limit: u32) -> Result<Vec<(i64, TokenRow)>> {
        self.read(move |c| tokens::page(c, after, limit)).await
    }

    /// Revokes a token; one that is revoked stays so, with its time. The digest of its secret;
    /// `None`: no such token. Urgent.
    pub async fn revoke_token(&self, id: &str, now_ms: i64) -> Result<Option<[u8; 32]>> {
        let id = id.to_owned();
        self.write(None, true, move |c| tokens::revoke(c, &id, now_ms)).await
    }

    /// Notes when tokens, by id, were last used; never goes back. Unknown ones are fine.
    pub async fn tokens_used(&self, all: Vec<(String, i64)>) -> Result<()> {
        self.write(None, false, move |c| tokens::used(c, &all)).await
    }

    /// Deletes tokens that ended before `before_ms`, at most `batch` of those that were revoked
    /// and of those that expired; how many. Urgent: it frees space.
    pub async fn sweep_tokens(&self, before_ms: i64, batch: u32) -> Result<u64> {
        self.write(None, true, move |c| tokens::sweep(c, before_ms, batch)).await
    }
}
