//! What happened, as it is told: in `GET /v1/events`, to webhooks.

use crate::{ObjectId, Owner, SandboxId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! types {
    ($($(#[$doc:meta])* $name:ident = $text:tt;)*) => {
        /// The types of events, each with what stands in its `data`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        pub enum EventType {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }
        impl EventType {
            /// Every type.
            pub const ALL: &'static [EventType] = &[$(EventType::$name),*];
            /// The type as it is written.
            pub fn as_str(self) -> &'static str {
                match self { $(EventType::$name => $text,)* }
            }
        }
    };
}

types! {
    /// The sandbox came into being. `{image}`
    SandboxCreated = "sandbox.created";
    /// Its settings or variables were changed. `{fields}`: the names of those that differ now.
    SandboxUpdated = "sandbox.updated";
    /// It had expired, and is used again. `{}`
    SandboxRevived = "sandbox.revived";
    /// The start of an instance was committed; what fails after it is a stop. `{image, starts}`
    SandboxStarted = "sandbox.started";
    /// The instance is about to be stopped, after `beforeStop`. `{reason, cause, timeoutMs}`
    SandboxStopping = "sandbox.stopping";
    /// The instance stopped. `{reason, cause, exitCode, startedAt, stoppedAt}`
    SandboxStopped = "sandbox.stopped";
    /// The sandbox expired: all but its directory entry is gone. `{}`
    SandboxExpired = "sandbox.expired";
    /// The sandbox was destroyed. `{}`
    SandboxDestroyed = "sandbox.destroyed";
    /// A code context came into being. `{context, language}`
    ContextCreated = "context.created";
    /// An execution's memory was saved, or that of a rollback. `{context, executions}`
    ContextSnapshot = "context.snapshot";
    /// A code context was deleted, other than with its sandbox. `{context}`
    ContextDeleted = "context.deleted";
    /// Something was refused that would have gone over a quota; of many of the same kind in a few
    /// seconds one is told. `{quota, limit, current}`
    QuotaRefused = "quota.refused";
}

impl std::fmt::Display for EventType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for EventType {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|kind| kind.as_str() == text);
        found.copied().ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
            format!("{text:?} is no type of event; they are {}", all.join(", "))
        })
    }
}

/// One thing that happened. It was written in the same commit as the change that it tells of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Its place among all events of the server; grows, and is never given twice.
    pub id: i64,
    /// When it was written, ms since the epoch.
    pub at: i64,
    /// What happened. A later release may know more types: pass over those that you do not know.
    #[serde(rename = "type")]
    #[schema(value_type = EventType)]
    pub kind: String,
    /// Whose.
    pub owner: Owner,
    /// The sandbox; absent where it is none's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
    /// The sandbox's object id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub object: Option<ObjectId>,
    /// The instance, where it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// More, by type. Never a variable's value, a token or what a command wrote.
    #[schema(value_type = Object)]
    pub data: Map<String, Value>,
}

/// A page of events, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventPage {
    /// The events.
    pub events: Vec<Event>,
    /// `after` of the next page. Nothing that fits lies between the last event and it.
    pub next_after: i64,
    /// Whether there is more by now.
    pub more: bool,
    /// Events behind `after` are not kept any more, or `after` is of another server: look anew at
    /// what there is.
    pub missed: bool,
}
