//! `/v1`: the project's own API.

use crate::dispatch::Call;
use crate::{json, quotas, reply};
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use types::{
    Execution, Patch, Result, SandboxInfo, SandboxName, SettingsRequest, Stop, StopRequest,
};

/// A body in which nothing is expected.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Make a sandbox
///
/// Makes a sandbox, without starting it; what is absent takes the server's defaults. Where it
/// exists with the same settings nothing changes; where the request would change any of those
/// that it names, it is refused: use PATCH.
#[utoipa::path(put, path = "/v1/sandboxes/{id}", tag = "sandboxes", operation_id = "putSandbox",
    request_body = Option<SettingsRequest>,
    responses(
        (status = 201, description = "It is new.", body = SandboxInfo),
        (status = 200, description = "It existed with these settings.", body = SandboxInfo),
    ))]
pub(crate) async fn put(call: Call, name: SandboxName) -> Result<Response> {
    let settings: SettingsRequest = json::parse(&call.body)?;
    settings.validate_maps()?;
    let (new, info) = call.app.sandboxes.put(&name, settings).await?;
    reply::json(if new { StatusCode::CREATED } else { StatusCode::OK }, &info)
}

/// Change settings
///
/// Changes the settings that are named and leaves the others. In `envVars` and `labels`, null
/// removes one. What concerns an instance counts from its next start.
#[utoipa::path(patch, path = "/v1/sandboxes/{id}", tag = "sandboxes", operation_id = "patchSandbox",
    request_body = Patch,
    responses((status = 200, description = "The sandbox as it is now.", body = SandboxInfo)))]
pub(crate) async fn patch(call: Call, name: SandboxName) -> Result<Response> {
    let patch = json::parse_patch(&call.body)?;
    patch.validate_maps()?;
    reply::ok(&call.app.sandboxes.patch(&name, patch).await?)
}

/// Read a sandbox
///
/// All that is known of a sandbox. Starts, wakes and prolongs nothing.
#[utoipa::path(get, path = "/v1/sandboxes/{id}", tag = "sandboxes", operation_id = "getSandbox",
    responses((status = 200, description = "The sandbox.", body = SandboxInfo)))]
pub(crate) async fn info(call: Call, name: SandboxName) -> Result<Response> {
    reply::ok(&call.app.sandboxes.info(&name).await?)
}

/// Destroy a sandbox
///
/// Ends its instance, deletes its workspace and all its settings, and removes it from the
/// directory; immediate and permanent. Its stop history stays readable. A sandbox that does not
/// exist is destroyed already.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}", tag = "sandboxes", operation_id = "deleteSandbox",
    responses((status = 204, description = "It is gone.")))]
pub(crate) async fn destroy(call: Call, name: SandboxName) -> Result<Response> {
    call.app.sandboxes.destroy(&name).await?;
    Ok(reply::done())
}

/// Start an instance
///
/// Starts an instance where none runs, making the sandbox where needed.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/start", tag = "sandboxes", operation_id = "startSandbox",
    params(("waitMs" = Option<u32>, Query, minimum = 0, maximum = 60_000, description = "Wait so long for room where a limit keeps the instance from starting; the server's setting by default, which is 0 as a rule.")),
    responses((status = 200, description = "An instance runs.", body = SandboxInfo)))]
pub(crate) async fn start(call: Call, name: SandboxName) -> Result<Response> {
    let Nothing {} = json::parse(&call.body)?;
    let wait = quotas::wait(&call)?;
    tokio::select! {
        started = call.app.sandboxes.start(&name, wait) => reply::ok(&started?),
        error = call.gone() => Err(error),
    }
}

/// Stop the instance
///
/// Ends the instance; the sandbox, its workspace and its record stay. Where none runs there is
/// nothing to do.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/stop", tag = "sandboxes", operation_id = "stopSandbox",
    request_body = Option<StopRequest>,
    responses((status = 204, description = "No instance runs.")))]
pub(crate) async fn stop(call: Call, name: SandboxName) -> Result<Response> {
    let stop: StopRequest = json::parse(&call.body)?;
    call.app.sandboxes.stop(&name, stop).await?;
    Ok(reply::done())
}

/// Count as activity
///
/// Counts as activity of the sandbox: its idle limit and its expiry begin anew.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/touch", tag = "sandboxes", operation_id = "touchSandbox",
    responses((status = 204, description = "It counted.")))]
pub(crate) async fn touch(call: Call, name: SandboxName) -> Result<Response> {
    let Nothing {} = json::parse(&call.body)?;
    call.app.sandboxes.touch(&name).await?;
    Ok(reply::done())
}

/// Read the stop history
///
/// The stops of the last 30 days, newest first; also after the sandbox was destroyed.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/stops", tag = "history", operation_id = "listStops",
    responses((status = 200, description = "The stops.", body = Vec<Stop>)))]
pub(crate) async fn stops(call: Call, name: SandboxName) -> Result<Response> {
    reply::ok(&call.app.sandboxes.stops(&name).await?)
}

/// Read the command history
///
/// The latest commands, newest first, running ones among them.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/executions", tag = "history", operation_id = "listExecutions",
    params(("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "At most so many; 100 by default.")),
    responses((status = 200, description = "The commands.", body = Vec<Execution>)))]
pub(crate) async fn executions(call: Call, name: SandboxName) -> Result<Response> {
    let limit = call.query.number("limit", 1..=1000, 100)?;
    reply::ok(&call.app.sandboxes.executions(&name, limit).await?)
}

/// Read the main process's output
///
/// The last 1 048 576 bytes that main processes wrote, as they wrote them; kept after a stop.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/logs", tag = "history", operation_id = "getLogs",
    responses((status = 200, description = "The bytes.", body = Vec<u8>, content_type = "application/octet-stream")))]
pub(crate) async fn logs(call: Call, name: SandboxName) -> Result<Response> {
    let bytes = call.app.sandboxes.logs(&name).await?;
    let kind = HeaderValue::from_static("application/octet-stream");
    Ok(reply::bytes(StatusCode::OK, kind, bytes))
}
