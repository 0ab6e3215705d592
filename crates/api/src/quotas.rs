//! What an owner may have, and waiting for it.

use crate::dispatch::Call;
use crate::reply;
use axum::response::Response;
use sandbox::WAIT_MAX_MS;
use std::time::Duration;
use types::{Owner, QuotaReport, Result};

/// Read the quotas
///
/// What the owner may have and what it has. A limit that is null is none. The limits of the server
/// as a whole may be reached earlier.
#[utoipa::path(get, path = "/v1/quotas", tag = "server", operation_id = "getQuotas",
    responses((status = 200, description = "Limits and counts.", body = QuotaReport)))]
pub(crate) async fn get(call: Call, owner: Owner) -> Result<Response> {
    reply::ok(&call.app.sandboxes.quotas(&owner).await?)
}

/// How long the caller waits for room. Errors: `VALIDATION_FAILED`.
pub(crate) fn wait(call: &Call) -> Result<Duration> {
    let usual = call.app.sandboxes.usual_wait().as_millis();
    let usual = u32::try_from(usual).unwrap_or(WAIT_MAX_MS).min(WAIT_MAX_MS);
    let ms = call.query.number("waitMs", 0..=WAIT_MAX_MS, usual)?;
    Ok(Duration::from_millis(u64::from(ms)))
}
