//! The routes of the documents that the project starts from (S1: `/users/…`, S3: `/sandboxes/…`):
//! thin adapters on the same sandboxes.

use crate::dispatch::Call;
use crate::reply;
use axum::response::Response;
use types::{DirectoryEntry, ErrorCode, Owner, Record, Result, SandboxName, StopRequest};

/// List a user's sandboxes
///
/// Every sandbox in the user's directory, oldest entry first, ties by name; stopped ones stay
/// until removed. Starts, wakes and prolongs nothing.
#[utoipa::path(get, path = "/users/{owner}/sandboxes", tag = "users", operation_id = "listUserSandboxes",
    responses((status = 200, description = "The directory.", body = Vec<DirectoryEntry>)))]
pub(crate) async fn directory(call: Call, owner: Owner) -> Result<Response> {
    reply::ok(&call.app.sandboxes.directory(&owner).await?)
}

/// Read the record of a user's sandbox
///
/// The record, or null where the sandbox was never started. Starts, wakes and prolongs nothing.
#[utoipa::path(get, path = "/users/{owner}/sandboxes/{session}", tag = "users", operation_id = "getUserSandbox",
    responses((status = 200, description = "The record, or null.", body = Option<Record>)))]
pub(crate) async fn record(call: Call, name: SandboxName) -> Result<Response> {
    reply::ok(&call.app.sandboxes.record(&name).await?)
}

/// Destroy a user's sandbox
///
/// Destroys the sandbox and removes it from the directory. One that does not exist is destroyed
/// already.
#[utoipa::path(delete, path = "/users/{owner}/sandboxes/{session}", tag = "users", operation_id = "deleteUserSandbox",
    responses((status = 204, description = "It is gone.")))]
pub(crate) async fn destroy(call: Call, name: SandboxName) -> Result<Response> {
    call.app.sandboxes.destroy(&name).await?;
    Ok(reply::done())
}

/// Read the record of one's own sandbox
///
/// The record, or null where the sandbox was never started or is not known.
#[utoipa::path(get, path = "/sandboxes/{name}", tag = "own", operation_id = "getOwnSandbox",
    responses((status = 200, description = "The record, or null.", body = Option<Record>)))]
pub(crate) async fn own_record(call: Call, name: SandboxName) -> Result<Response> {
    let record = call.app.sandboxes.record(&name).await;
    reply::ok(&unless_unknown(record)?)
}

/// Stop one's own sandbox
///
/// Ends the instance; the record stays. Where none runs, or the sandbox is not known, there is
/// nothing to do.
#[utoipa::path(delete, path = "/sandboxes/{name}", tag = "own", operation_id = "stopOwnSandbox",
    responses((status = 204, description = "No instance runs.")))]
pub(crate) async fn own_stop(call: Call, name: SandboxName) -> Result<Response> {
    let stopped = call.app.sandboxes.stop(&name, StopRequest::default()).await;
    unless_unknown(stopped)?;
    Ok(reply::done())
}

fn unless_unknown<T: Default>(result: Result<T>) -> Result<T> {
    match result {
        Err(error) if error.code == ErrorCode::SandboxNotFound => Ok(T::default()),
        other => other,
    }
}
