//! Code contexts, their copies and their checkpoints.

use crate::dispatch::Call;
use crate::{json, reply};
use axum::response::Response;
use hyper::StatusCode;
use types::{
    CheckpointInfo, CheckpointList, CheckpointRequest, ContextInfo, ContextList, ContextRequest,
    EnvRequest, Result, SandboxName,
};

/// A body in which nothing is expected.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Make a code context
///
/// Makes a code context: an interpreter whose memory is kept from one execution to the next, also
/// over restarts. The sandbox comes into being where it is not there.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts", tag = "code", operation_id = "createContext",
    request_body = ContextRequest,
    responses((status = 201, description = "It is there.", body = ContextInfo)))]
pub(crate) async fn create(call: Call, name: SandboxName) -> Result<Response> {
    let request: ContextRequest = json::parse(&call.body)?;
    let info = call.app.sandboxes.create_context(&name, request).await?;
    reply::json(StatusCode::CREATED, &info)
}

/// List code contexts
///
/// The contexts of the sandbox, oldest first. Starts, wakes and prolongs nothing.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/contexts", tag = "code", operation_id = "listContexts",
    responses((status = 200, description = "The contexts.", body = ContextList)))]
pub(crate) async fn list(call: Call, name: SandboxName) -> Result<Response> {
    reply::ok(&ContextList { contexts: call.app.sandboxes.contexts(&name).await? })
}

/// Read a code context
///
/// What is known of one context. Starts, wakes and prolongs nothing.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/contexts/{ctx}", tag = "code", operation_id = "getContext",
    responses((status = 200, description = "The context.", body = ContextInfo)))]
pub(crate) async fn get(call: Call, name: SandboxName) -> Result<Response> {
    reply::ok(&call.app.sandboxes.context(&name, call.named("ctx")?).await?)
}

/// Delete a code context
///
/// Deletes the context with its memory and its checkpoints; files stay. An execution in it is
/// stopped.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}/contexts/{ctx}", tag = "code", operation_id = "deleteContext",
    responses((status = 204, description = "It is gone.")))]
pub(crate) async fn delete(call: Call, name: SandboxName) -> Result<Response> {
    call.app.sandboxes.delete_context(&name, call.named("ctx")?).await?;
    Ok(reply::done())
}

/// Copy a code context
///
/// Makes a second context with the same memory, working directory and variables. The two share
/// what is stored until they differ.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts/{ctx}/fork", tag = "code", operation_id = "forkContext",
    responses((status = 201, description = "The new context.", body = ContextInfo)))]
pub(crate) async fn fork(call: Call, name: SandboxName) -> Result<Response> {
    let Nothing {} = json::parse(&call.body)?;
    let info = call.app.sandboxes.fork_context(&name, call.named("ctx")?).await?;
    reply::json(StatusCode::CREATED, &info)
}

/// Keep a state
///
/// Keeps the present state of the context under a name, to go back to. It costs no copy.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts/{ctx}/checkpoints", tag = "code", operation_id = "createCheckpoint",
    request_body = CheckpointRequest,
    responses((status = 201, description = "It is kept.", body = CheckpointInfo)))]
pub(crate) async fn checkpoint(call: Call, name: SandboxName) -> Result<Response> {
    let request: CheckpointRequest = json::parse(&call.body)?;
    let context = call.named("ctx")?;
    let info = call.app.sandboxes.create_checkpoint(&name, context, request).await?;
    reply::json(StatusCode::CREATED, &info)
}

/// List kept states
///
/// The checkpoints of the context, oldest first.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/contexts/{ctx}/checkpoints", tag = "code", operation_id = "listCheckpoints",
    responses((status = 200, description = "The checkpoints.", body = CheckpointList)))]
pub(crate) async fn checkpoints(call: Call, name: SandboxName) -> Result<Response> {
    let checkpoints = call.app.sandboxes.checkpoints(&name, call.named("ctx")?).await?;
    reply::ok(&CheckpointList { checkpoints })
}

/// Go back to a kept state
///
/// Makes the context again what it was: memory, working directory, number of executions. Files
/// stay as they are; the checkpoint stays too.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts/{ctx}/checkpoints/{checkpoint}/rollback", tag = "code", operation_id = "rollbackContext",
    responses((status = 200, description = "The context as it is now.", body = ContextInfo)))]
pub(crate) async fn roll_back(call: Call, name: SandboxName) -> Result<Response> {
    let Nothing {} = json::parse(&call.body)?;
    let (context, checkpoint) = (call.named("ctx")?, call.named("checkpoint")?);
    reply::ok(&call.app.sandboxes.roll_back(&name, context, checkpoint).await?)
}

/// Delete a kept state
///
/// Deletes the checkpoint; the context stays as it is.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}/contexts/{ctx}/checkpoints/{checkpoint}", tag = "code", operation_id = "deleteCheckpoint",
    responses((status = 204, description = "It is gone.")))]
pub(crate) async fn delete_checkpoint(call: Call, name: SandboxName) -> Result<Response> {
    let (context, checkpoint) = (call.named("ctx")?, call.named("checkpoint")?);
    call.app.sandboxes.delete_checkpoint(&name, context, checkpoint).await?;
    Ok(reply::done())
}

/// Set variables
///
/// Sets variables of the sandbox, or removes those that are null: commands and code of all
/// contexts have them. The sandbox comes into being where it is not there.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/env", tag = "sandboxes", operation_id = "setEnv",
    request_body = EnvRequest,
    responses((status = 204, description = "They count from now on.")))]
pub(crate) async fn set_env(call: Call, name: SandboxName) -> Result<Response> {
    let request: EnvRequest = json::parse(&call.body)?;
    call.app.sandboxes.set_env(&name, request).await?;
    Ok(reply::done())
}
