//! Tokens, as callers of the store see them.

use types::Grant;

/// A token as it is kept: without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Its id, unique for ever.
    pub id: String,
    /// SHA-256 of its secret.
    pub digest: [u8; 32],
    /// Who its bearer is.
    pub grant: Grant,
    /// What it is for, in words.
    pub label: Option<String>,
    /// When it was made, ms since the epoch.
    pub created_at: i64,
    /// When it ends by itself, ms since the epoch.
    pub expires_at: Option<i64>,
    /// When it was revoked, ms since the epoch.
    pub revoked_at: Option<i64>,
    /// When it was last used, ms since the epoch.
    pub last_used: Option<i64>,
}
