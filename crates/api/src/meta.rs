//! What the server tells of itself.

use crate::dispatch::Call;
use crate::{openapi, reply};
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use serde::Serialize;
use types::Result;

/// That the server lives.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
    /// The server's release.
    version: &'static str,
}

/// See whether the server lives
///
/// Answers while the server takes requests. Touches no sandbox and no disk.
#[utoipa::path(get, path = "/healthz", tag = "server", operation_id = "getHealth",
    responses((status = 200, description = "It lives.", body = Health)))]
pub(crate) async fn healthz(_: Call) -> Result<Response> {
    reply::ok(&Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Read this document
///
/// The description of this API as OpenAPI.
#[utoipa::path(get, path = "/openapi.json", tag = "server", operation_id = "getOpenApi",
    responses((status = 200, description = "The document.", body = Object)))]
pub(crate) async fn openapi(_: Call) -> Result<Response> {
    let kind = HeaderValue::from_static("application/json");
    Ok(reply::bytes(StatusCode::OK, kind, openapi::text()))
}
