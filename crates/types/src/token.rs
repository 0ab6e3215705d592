//! Tokens: what one lets its bearer do, and how the API tells of it (section 10 of the contract).

use crate::{Error, Owner, Result};
use serde::{Deserialize, Serialize};

/// Longest label, characters.
const LABEL_MAX: usize = 200;
/// Longest life of a token, ms: a hundred years.
const LIFE_MAX_MS: u64 = 36_500 * 86_400_000;

/// What a token is good for that has no owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Scope {
    /// Reads what all owners have.
    #[serde(rename = "containers:read")]
    ContainersRead,
    /// Does all, for any owner.
    #[serde(rename = "admin")]
    Admin,
}

impl Scope {
    /// As it is written in requests and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::ContainersRead => "containers:read",
            Scope::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Scope {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let all = [Scope::ContainersRead, Scope::Admin];
        let found = all.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or("a scope is containers:read or admin")
    }
}

/// Who the bearer of a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// This owner, and nobody else.
    Owner(Owner),
    /// What the scope says.
    Scope(Scope),
}

impl Grant {
    /// The owner, where it is one.
    pub fn owner(&self) -> Option<&Owner> {
        match self {
            Grant::Owner(owner) => Some(owner),
            Grant::Scope(_) => None,
        }
    }

    /// The scope, where it is one.
    pub fn scope(&self) -> Option<Scope> {
        match self {
            Grant::Owner(_) => None,
            Grant::Scope(scope) => Some(*scope),
        }
    }
}

/// Body of `POST /v1/admin/tokens`. Exactly one of `owner` and `scope` must be there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenRequest {
    /// For this owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// For no owner, and what it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// What it is for, in words; at most 200 characters, none of them a control character.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Ends after so many ms; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub expires_in_ms: Option<u64>,
}

impl TokenRequest {
    /// Whom the token is for, all fields checked. Errors: `VALIDATION_FAILED`.
    pub fn grant(&self) -> Result<Grant> {
        if let Some(label) = &self.label
            && (label.chars().count() > LABEL_MAX || label.chars().any(char::is_control))
        {
            let message = format!(
                "label must have at most {LABEL_MAX} characters, and no control characters"
            );
            return Err(Error::invalid("label", message).with("max", LABEL_MAX));
        }
        if self.expires_in_ms.is_some_and(|ms| ms == 0 || ms > LIFE_MAX_MS) {
            let message =
                format!("expiresInMs must be from 1 to {LIFE_MAX_MS}; leave it out for never");
            return Err(Error::invalid("expiresInMs", message).with("max", LIFE_MAX_MS));
        }
        match (&self.owner, self.scope) {
            (Some(owner), None) => Ok(Grant::Owner(owner.clone())),
            (None, Some(scope)) => Ok(Grant::Scope(scope)),
            (None, None) => Err(Error::invalid("owner", "a token needs an owner or a scope")),
            (Some(_), Some(_)) => {
                Err(Error::invalid("scope", "a token has an owner or a scope, not both"))
            }
        }
    }
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenInfo {
    /// Its id, by which it is revoked. Not a secret.
    pub id: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// What it is good for, where it has no owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// What it is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it was made, ISO 8601 in UTC.
    pub created_at: String,
    /// When it ends by itself, ISO 8601 in UTC; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was revoked, ISO 8601 in UTC; absent: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    /// When it was last used, ISO 8601 in UTC, a minute more or less; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
}

/// A new token with its secret, which is told this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewToken {
    /// The secret: `sandkeep_` and 43 characters. The server keeps only its SHA-256.
    pub token: String,
    /// The rest.
    #[serde(flatten)]
    pub info: TokenInfo,
}

/// Without the secret, so that no log shows it.
impl std::fmt::Debug for NewToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewToken").field("info", &self.info).finish_non_exhaustive()
    }
}

/// A page of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenPage {
    /// The tokens, oldest first; revoked and expired ones stay for 90 days.
    pub tokens: Vec<TokenInfo>,
    /// Where the next page begins; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
