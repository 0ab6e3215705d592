//! Webhooks, as operators see them.

use crate::{EventType, Owner};
use serde::{Deserialize, Serialize};

/// A webhook and how it does. Counts are since the server's start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookInfo {
    /// Its name in the configuration.
    pub name: String,
    /// Where it leads, without what follows the path.
    pub url: String,
    /// The types that it takes; none: all.
    pub types: Vec<EventType>,
    /// The owner whose events it takes; null: everybody's.
    pub owner: Option<Owner>,
    /// The last event that is done with.
    pub cursor: i64,
    /// How many events there are behind the cursor, those that it does not take among them.
    pub behind: u64,
    /// Events delivered.
    pub delivered: u64,
    /// Events given up.
    pub given_up: u64,
    /// Failed tries since the last event that was delivered or given up.
    pub attempts: u32,
    /// When the present trouble began, ms since the epoch; null: there is none.
    pub failing_since: Option<i64>,
    /// Why the last try failed; null after one that did not.
    pub last_error: Option<String>,
    /// When an event was last delivered, ms since the epoch.
    pub last_delivered_at: Option<i64>,
}

/// All webhooks of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WebhookList {
    /// In the order of the configuration.
    pub webhooks: Vec<WebhookInfo>,
}

/// Body of `POST /v1/admin/webhooks/redeliver`: `event` or `after`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedeliverRequest {
    /// The webhook's name.
    pub name: String,
    /// Send this one event again, once and now; its turn among the others stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<i64>,
    /// Go on from behind this event: what comes after it is sent again, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedeliverResult {
    /// Whether the one event was delivered; null where several are sent, as their turn comes.
    pub delivered: Option<bool>,
    /// Why it was not.
    pub error: Option<String>,
}
