//! Webhooks, for administrators.

use crate::dispatch::Call;
use crate::{json, reply};
use axum::response::Response;
use types::{Error, RedeliverRequest, RedeliverResult, Result, WebhookList};

/// List webhooks
///
/// The webhooks of the configuration, and how each does: what was delivered, what was given up, how
/// far it is behind, and why the last try failed.
#[utoipa::path(get, path = "/v1/admin/webhooks", tag = "server", operation_id = "listWebhooks",
    responses((status = 200, description = "The webhooks.", body = WebhookList)))]
pub(crate) async fn list(call: Call) -> Result<Response> {
    let webhooks = call.app.webhooks.as_ref().map(|w| w.list()).unwrap_or_default();
    reply::ok(&WebhookList { webhooks })
}

/// Send events again
///
/// Sends one event again, now, and tells what became of it; or lets the webhook go on from behind
/// an event, so that all after it are sent again in their order.
#[utoipa::path(post, path = "/v1/admin/webhooks/redeliver", tag = "server", operation_id = "redeliver",
    request_body = RedeliverRequest,
    responses((status = 200, description = "It was tried, or is under way.", body = RedeliverResult)))]
pub(crate) async fn redeliver(call: Call) -> Result<Response> {
    let request: RedeliverRequest = json::parse(&call.body)?;
    let webhooks = call.app.webhooks.as_ref();
    let webhooks = webhooks.ok_or_else(|| Error::invalid("name", "this server has no webhooks"))?;
    reply::ok(&webhooks.redeliver(&request).await?)
}
