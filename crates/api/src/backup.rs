//! A backup of all that the server keeps.

use crate::dispatch::Call;
use crate::reply;
use axum::body::Body;
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use types::Result;

/// Write a backup
///
/// Sandboxes of all owners with their workspaces, contexts and history, tokens as hashes, as a tar
/// archive within zstd, written while the server works on; images and engines are left out. It has
/// secrets. An archive whose answer breaks off is not whole, and is not restored.
#[utoipa::path(get, path = "/v1/admin/backup", tag = "server", operation_id = "getBackup",
    responses((status = 200, description = "The archive.", body = Vec<u8>, content_type = "application/zstd")))]
pub(crate) async fn get(call: Call) -> Result<Response> {
    let backup = call.app.sandboxes.backup().await?;
    let pieces = futures::stream::unfold(backup, |mut backup| async {
        backup.next().await.map(|piece| (piece, backup))
    });
    let kind = HeaderValue::from_static("application/zstd");
    Ok(reply::bytes(StatusCode::OK, kind, Body::from_stream(pieces)))
}
