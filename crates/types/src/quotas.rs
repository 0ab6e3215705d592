//! Quotas: how much one owner, and the machine as a whole, may have.

use crate::{Error, ErrorCode, Owner};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use std::collections::BTreeMap;

/// Limits; null: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quotas {
    /// Entries of the directory.
    pub sandboxes: Option<u64>,
    /// Instances at once.
    pub running: Option<u64>,
    /// The sum of the running instances' memory limits, MiB.
    pub memory_mib: Option<u64>,
    /// The sum of the running instances' processor shares, cores.
    pub vcpu: Option<f64>,
    /// The sum of the workspaces, bytes. What commands write is counted after each use, so they may
    /// pass it once.
    pub workspace_bytes: Option<u64>,
    /// Code contexts.
    pub contexts: Option<u64>,
    /// Tokens that are neither expired nor revoked.
    pub tokens: Option<u64>,
    /// Requests per second; a second's worth may come at once.
    pub requests_per_second: Option<f64>,
}

/// What is counted now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUse {
    /// Entries of the directory.
    pub sandboxes: u64,
    /// Instances.
    pub running: u64,
    /// The sum of the running instances' memory limits, MiB.
    pub memory_mib: u64,
    /// The sum of the running instances' processor shares, cores.
    pub vcpu: f64,
    /// The sum of the workspaces, bytes, as of the last use of each.
    pub workspace_bytes: u64,
    /// Code contexts.
    pub contexts: u64,
    /// Tokens that are neither expired nor revoked.
    #[serde(default)]
    pub tokens: u64,
}

/// The answer of `GET /v1/quotas`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QuotaReport {
    /// Whose.
    pub owner: Owner,
    /// What the owner may have.
    pub limits: Quotas,
    /// What the owner has.
    pub current: QuotaUse,
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuotaKind {
    /// [`Quotas::sandboxes`]
    Sandboxes,
    /// [`Quotas::running`]
    Running,
    /// [`Quotas::memory_mib`]
    Memory,
    /// [`Quotas::vcpu`]
    Vcpu,
    /// [`Quotas::workspace_bytes`]
    WorkspaceBytes,
    /// [`Quotas::contexts`]
    Contexts,
    /// [`Quotas::tokens`]
    Tokens,
    /// [`Quotas::requests_per_second`]
    Requests,
}

impl QuotaKind {
    const ALL: [Self; 8] = [
        Self::Sandboxes,
        Self::Running,
        Self::Memory,
        Self::Vcpu,
        Self::WorkspaceBytes,
        Self::Contexts,
        Self::Tokens,
        Self::Requests,
    ];

    /// The word for it in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandboxes => "sandboxes",
            Self::Running => "running",
            Self::Memory => "memoryMib",
            Self::Vcpu => "vcpu",
            Self::WorkspaceBytes => "workspaceBytes",
            Self::Contexts => "contexts",
            Self::Tokens => "tokens",
            Self::Requests => "requestsPerSecond",
        }
    }

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Whether time alone makes room again. Of the others somebody has to remove something.
    pub fn passes(self) -> bool {
        matches!(self, Self::Running | Self::Memory | Self::Vcpu | Self::Requests)
    }

    fn words(self) -> &'static str {
        match self {
            Self::Sandboxes => "sandboxes",
            Self::Running => "running instances",
            Self::Memory => "MiB of memory of running instances",
            Self::Vcpu => "cores of running instances",
            Self::WorkspaceBytes => "bytes in workspaces",
            Self::Contexts => "code contexts",
            Self::Tokens => "tokens",
            Self::Requests => "requests per second",
        }
    }
}

/// Whose limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuotaScope {
    /// The caller's owner's.
    Owner,
    /// All owners' together.
    Machine,
}

impl QuotaScope {
    /// The word for it in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Machine => "machine",
        }
    }
}

/// A limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuotaExceeded {
    /// What is limited.
    pub what: QuotaKind,
    /// Whose limit.
    pub scope: QuotaScope,
    /// The limit.
    pub limit: f64,
    /// What there was before.
    pub current: f64,
    /// How much more was asked for.
    pub needed: f64,
}

impl QuotaExceeded {
    /// As a caller sees it. Of the machine's limit nobody is told how much others have.
    pub fn error(&self) -> Error {
        let whose = match self.scope {
            QuotaScope::Owner => "the owner",
            QuotaScope::Machine => "the server",
        };
        let (limit, what) = (number(self.limit), self.what.words());
        let error = Error::new(
            ErrorCode::QuotaExceeded,
            format!("{whose} may have {limit} {what}, and this would be more"),
        );
        let error = error
            .with("what", self.what.as_str())
            .with("limit", limit)
            .with("scope", self.scope.as_str())
            .with("needed", number(self.needed));
        match self.scope {
            QuotaScope::Owner => error.with("current", number(self.current)),
            QuotaScope::Machine => error,
        }
    }
}

/// Whole numbers are written without a fraction.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && (0.0..9e15).contains(&value) {
        return Value::from(value as u64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

impl Error {
    /// Whether a quota refused it of which somebody has to remove something, or that could never
    /// hold it.
    pub(crate) fn needs_an_act(&self) -> bool {
        if self.code != ErrorCode::QuotaExceeded {
            return false;
        }
        let number = |key: &str| self.context.get(key).and_then(Value::as_f64);
        let too_much = number("needed") > number("limit");
        let kind = self.context.get("what").and_then(Value::as_str).and_then(QuotaKind::of);
        too_much || kind.is_some_and(|kind| !kind.passes())
    }
}

/// The limits of a server: of each owner, and of all together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct QuotaTable {
    /// Of an owner that is not named.
    pub owner: Quotas,
    /// Of all owners together.
    pub machine: Quotas,
    /// Of those that are named.
    pub owners: BTreeMap<Owner, Quotas>,
}

impl QuotaTable {
    /// The limits of an owner.
    pub fn of(&self, owner: &Owner) -> &Quotas {
        self.owners.get(owner).unwrap_or(&self.owner)
    }
}
