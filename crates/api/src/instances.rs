//! Running instances, for administrators.

use crate::dispatch::Call;
use crate::reply;
use axum::response::Response;
use types::{Owner, Result, RunningList};

/// List running instances
///
/// The instances that run, by owner and name, and what each uses. Processor time is a sum: two
/// lists give the share in between. Wakes and prolongs nothing.
#[utoipa::path(get, path = "/v1/admin/instances", tag = "server", operation_id = "listRunningInstances",
    params(("owner" = Option<String>, Query, description = "Only of this owner.")),
    responses((status = 200, description = "The instances.", body = RunningList)))]
pub(crate) async fn list(call: Call) -> Result<Response> {
    let owner = call.query.get("owner").map(str::parse::<Owner>).transpose();
    let owner = owner.map_err(|e| crate::path::refused("owner", &e))?;
    reply::ok(&call.app.sandboxes.running_instances(owner.as_ref()).await?)
}
