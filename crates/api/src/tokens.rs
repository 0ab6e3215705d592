//! `/v1/admin/tokens`: who may come in. Open mode does not reach these.

use crate::dispatch::Call;
use crate::{json, reply};
use axum::response::Response;
use hyper::StatusCode;
use types::{NewToken, Result, TokenPage, TokenRequest};

/// Make a token
///
/// Makes a token for an owner or with a scope. Its secret is in this answer and nowhere else: the
/// server keeps its SHA-256. With the first token the server leaves open mode for ever.
#[utoipa::path(post, path = "/v1/admin/tokens", tag = "tokens", operation_id = "createToken",
    request_body = TokenRequest,
    responses((status = 201, description = "The token.", body = NewToken)))]
pub(crate) async fn create(call: Call) -> Result<Response> {
    let request: TokenRequest = json::parse(&call.body)?;
    reply::json(StatusCode::CREATED, &call.app.keyring.create(&request).await?)
}

/// List tokens
///
/// One page of all tokens, without their secrets, oldest first. Revoked and expired ones are
/// among them for 90 days.
#[utoipa::path(get, path = "/v1/admin/tokens", tag = "tokens", operation_id = "listTokens",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "At most so many; 100 by default."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before."),
    ),
    responses((status = 200, description = "A page.", body = TokenPage)))]
pub(crate) async fn list(call: Call) -> Result<Response> {
    let limit = call.query.number("limit", 1..=1000, 100)?;
    reply::ok(&call.app.keyring.list(limit, call.query.get("cursor")).await?)
}

/// Revoke a token
///
/// No request that begins after this answer gets in with it, and streams, commands and code that it
/// has under way end. One that is revoked already stays so.
#[utoipa::path(delete, path = "/v1/admin/tokens/{token}", tag = "tokens", operation_id = "revokeToken",
    responses((status = 204, description = "It is revoked.")))]
pub(crate) async fn revoke(call: Call) -> Result<Response> {
    call.app.keyring.revoke(call.named("token")?).await?;
    Ok(reply::done())
}
