//! Files below `/workspace`.

use crate::body::Incoming;
use crate::dispatch::Call;
use crate::{json, reply};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderValue, IF_RANGE,
    RANGE,
};
use hyper::{HeaderMap, StatusCode};
use sandbox::{Download, Packed, Sandboxes};
use std::io;
use std::ops::Range;
use std::time::Duration;
use types::{
    DeleteFileResult, Error, FileInfo, FilesOp, FilesRequest, FilesResult, ListFilesResult, Result,
    SandboxName, UnpackResult, WatchEvent, WriteFileResult,
};

/// A watch never rests for longer.
const PING: Duration = Duration::from_secs(10);

/// Read a file, or look at one
///
/// The bytes of a file, or a part of them. With `stat`: what is told of it, links not followed.
/// With `list`: what lies in a directory, in the order of the bytes of the paths. The path is one
/// below `/workspace`, each part percent-decoded to bytes; one that begins with a slash is taken
/// as absolute. Nothing is read of FIFOs, sockets and devices, nor through links that lead out.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files/{path}", tag = "files", operation_id = "readFile",
    params(
        ("stat" = Option<bool>, Query, description = "Tell of the file instead of reading it."),
        ("list" = Option<bool>, Query, description = "List the directory."),
        ("recursive" = Option<bool>, Query, description = "With `list`: also what lies in directories below."),
        ("includeHidden" = Option<bool>, Query, description = "With `list`: also names that begin with a dot."),
        ("Range" = Option<String>, Header, description = "One range of bytes."),
        ("If-Range" = Option<String>, Header, description = "The `ETag` that the range is of; else all comes."),
    ),
    responses(
        (status = 200, description = "The bytes; what is told of the file; or the list.",
            content((Vec<u8> = "application/octet-stream"), (Told = "application/json")),
            headers(("ETag" = Option<String>, description = "Of the bytes: differs where they may differ."),
                ("Accept-Ranges" = Option<String>, description = "Of the bytes: `bytes`."))),
        (status = 206, description = "The range.", body = Vec<u8>, content_type = "application/octet-stream",
            headers(("Content-Range" = String, description = "Which bytes, and of how many."), ("ETag" = String))),
    ))]
pub(crate) async fn get(call: Call, name: SandboxName) -> Result<Response> {
    let (stat, list) = (call.query.flag("stat")?, call.query.flag("list")?);
    let (recursive, hidden) = (call.query.flag("recursive")?, call.query.flag("includeHidden")?);
    if stat && list {
        return Err(Error::invalid("stat", "stat and list exclude each other"));
    }
    for (flag, set) in [("recursive", recursive), ("includeHidden", hidden)] {
        if set && !list {
            return Err(Error::invalid(flag, format!("{flag} goes with list")));
        }
    }
    let files = call.app.sandboxes.files_if_there(&name).await?;
    if stat {
        return reply::ok(&files.stat(&call.file).await?);
    }
    if list {
        let listed = files.list(&call.file, recursive, hidden).await?;
        return reply::kept(&listed.list, listed.room);
    }
    download(&call.headers, files.read(&call.file).await?)
}

/// List `/workspace`, or look at it
///
/// As `GET /v1/sandboxes/{id}/files/{path}` with `list` or `stat`, of `/workspace` itself.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files", tag = "files", operation_id = "listWorkspace",
    params(
        ("stat" = Option<bool>, Query, description = "Tell of the directory."),
        ("list" = Option<bool>, Query, description = "List the directory."),
        ("recursive" = Option<bool>, Query, description = "With `list`: also what lies in directories below."),
        ("includeHidden" = Option<bool>, Query, description = "With `list`: also names that begin with a dot."),
    ),
    responses((status = 200, description = "What is told of it; or the list.", body = Told)))]
pub(crate) async fn root(call: Call, name: SandboxName) -> Result<Response> {
    get(call, name).await
}

/// What is told of a file, or a list.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[allow(dead_code)] // It describes the answer.
pub(crate) enum Told {
    File(FileInfo),
    List(ListFilesResult),
}

/// Write a file
///
/// Takes bytes of any type as they come, and puts the file in its place when it is whole: an
/// upload that breaks off changes nothing, and of two writers one wins. A file that is there keeps
/// its mode. The directory must be there. Makes the sandbox where needed.
#[utoipa::path(put, path = "/v1/sandboxes/{id}/files/{path}", tag = "files", operation_id = "writeFile",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "It is written.", body = WriteFileResult)))]
pub(crate) async fn put(call: Call, name: SandboxName) -> Result<Response> {
    let Call { app, file, mut incoming, .. } = call;
    let written = write(&app.sandboxes, &name, &file, &mut incoming).await;
    if written.is_err() {
        incoming.refuse();
    }
    reply::ok(&written?)
}

async fn write(
    sandboxes: &Sandboxes,
    name: &SandboxName,
    path: &[u8],
    from: &mut Incoming,
) -> Result<WriteFileResult> {
    let files = sandboxes.files_to_fill(name).await?;
    let mut upload = files.write(path, from.size()).await?;
    loop {
        let piece = tokio::select! {
            piece = from.next() => piece?,
            () = upload.aborted() => return Err(gone()),
        };
        match piece {
            Some(piece) => upload.write(piece).await?,
            None => return upload.finish().await,
        }
    }
}

/// Delete a file or a directory
///
/// A link is deleted and not followed. A directory goes only with `recursive`.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}/files/{path}", tag = "files", operation_id = "deleteFile",
    params(
        ("recursive" = Option<bool>, Query, description = "Also directories, with all that is in them."),
        ("force" = Option<bool>, Query, description = "Nothing there is fine."),
    ),
    responses((status = 200, description = "It is deleted.", body = DeleteFileResult)))]
pub(crate) async fn delete(call: Call, name: SandboxName) -> Result<Response> {
    let (recursive, force) = (call.query.flag("recursive")?, call.query.flag("force")?);
    let files = call.app.sandboxes.files(&name).await?;
    reply::ok(&files.delete(&call.file, recursive, force).await?)
}

/// Make a directory, move, copy, ask
///
/// `mkdir`, `move` (or `rename`), `copy`, `exists`. Moving replaces files and empty directories
/// unless `overwrite` is false. Makes the sandbox where needed.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files", tag = "files", operation_id = "changeFiles",
    request_body = FilesRequest,
    responses((status = 200, description = "It is done.", body = FilesResult)))]
pub(crate) async fn change(call: Call, name: SandboxName) -> Result<Response> {
    let request: FilesRequest = json::parse(&call.body)?;
    request.validate()?;
    let sandboxes = &call.app.sandboxes;
    let files = match request.op {
        FilesOp::Mkdir | FilesOp::Copy => sandboxes.files_to_fill(&name).await?,
        FilesOp::Move | FilesOp::Rename | FilesOp::Exists => sandboxes.files(&name).await?,
    };
    reply::ok(&files.change(request).await?)
}

/// Read a tree as a tar archive
///
/// The contents of a directory, or one file, as a tar archive (GNU), written while it is read:
/// one that breaks off is not whole. FIFOs, sockets and devices are left out.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/archive", tag = "files", operation_id = "readArchive",
    params(("path" = Option<String>, Query, description = "The directory or file; `/workspace` by default.")),
    responses((status = 200, description = "The archive.", body = Vec<u8>, content_type = "application/x-tar")))]
pub(crate) async fn pack(call: Call, name: SandboxName) -> Result<Response> {
    let files = call.app.sandboxes.files_if_there(&name).await?;
    let packed = files.pack(call.query.bytes("path")).await?;
    let kind = HeaderValue::from_static("application/x-tar");
    let pieces = futures::stream::unfold(packed, |mut packed: Packed| async {
        piece(packed.next().await).map(|piece| (piece, packed))
    });
    Ok(reply::bytes(StatusCode::OK, kind, Body::from_stream(pieces)))
}

/// Unpack a tar archive
///
/// Unpacks the body in a directory that is there. Refused, by name, are entries that are absolute
/// or have `..` in their names, links that lead out, devices and FIFOs; what was unpacked before
/// one stays. Makes the sandbox where needed.
#[utoipa::path(put, path = "/v1/sandboxes/{id}/archive", tag = "files", operation_id = "writeArchive",
    params(("path" = Option<String>, Query, description = "The directory; `/workspace` by default.")),
    request_body(content = Vec<u8>, content_type = "application/x-tar"),
    responses((status = 200, description = "It is unpacked.", body = UnpackResult)))]
pub(crate) async fn unpack(call: Call, name: SandboxName) -> Result<Response> {
    let Call { app, query, mut incoming, .. } = call;
    let unpacked = unpack_from(&app.sandboxes, &name, query.bytes("path"), &mut incoming).await;
    if unpacked.is_err() {
        incoming.refuse();
    }
    reply::ok(&unpacked?)
}

async fn unpack_from(
    sandboxes: &Sandboxes,
    name: &SandboxName,
    path: &[u8],
    from: &mut Incoming,
) -> Result<UnpackResult> {
    let files = sandboxes.files_to_fill(name).await?;
    let mut unpacking = files.unpack(path).await?;
    loop {
        let piece = tokio::select! {
            piece = from.next() => piece?,
            () = unpacking.aborted() => return Err(gone()),
        };
        let more = match piece {
            Some(piece) => unpacking.write(piece.into()).await?,
            None => return unpacking.finish().await,
        };
        if !more {
            // The archive has ended, or was refused; what follows it says nothing.
            let unpacked = unpacking.finish().await?;
            while from.next().await?.is_some() {}
            return Ok(unpacked);
        }
    }
}

/// Watch a directory
///
/// Server-sent events of what changes in a directory and below it, from `ready` on; the sandbox is
/// busy meanwhile. A reader that is too slow is told `overflow`, and then has to look anew.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/watch", tag = "files", operation_id = "watchFiles",
    params(("path" = Option<String>, Query, description = "The directory; `/workspace` by default.")),
    responses((status = 200, description = "The events; the data of each is a `WatchEvent`.", body = serde_json::Value, content_type = "text/event-stream")))]
pub(crate) async fn watch(call: Call, name: SandboxName) -> Result<Response> {
    let files = call.app.sandboxes.files_if_there(&name).await?;
    let changes = files.watch(call.query.bytes("path")).await?;
    let events = futures::stream::unfold(Some((call, changes)), |state| async {
        let (call, mut changes) = state?;
        let text = tokio::select! {
            event = tokio::time::timeout(PING, changes.next()) => match event {
                Err(_) => Some(": ping\n\n".to_owned()),
                Ok(event) => told(&call, event),
            },
            error = call.gone() => told(&call, Err(error)),
        };
        let text = text?;
        let last = text.starts_with("event: error");
        Some((Ok::<_, io::Error>(Bytes::from(text)), (!last).then_some((call, changes))))
    });
    let kind = HeaderValue::from_static("text/event-stream");
    Ok(reply::bytes(StatusCode::OK, kind, Body::from_stream(events)))
}

/// An event as it is written; `None` after the last one.
fn told(call: &Call, event: Result<Option<WatchEvent>>) -> Option<String> {
    let (name, data) = match event {
        Ok(event) => {
            let data = serde_json::to_value(event?).ok()?;
            (data["type"].as_str()?.to_owned(), data.to_string())
        }
        Err(error) => {
            let body = error.body(reply::now_ms());
            let body = reply::shown_body(&call.app.private, &call.id, body);
            ("error".to_owned(), serde_json::to_string(&body).ok()?)
        }
    };
    Some(format!("event: {name}\ndata: {data}\n\n"))
}

fn gone() -> Error {
    let message = "the sandbox was destroyed before this was done";
    Error::new(types::ErrorCode::SandboxDestroyed, message)
}

/// A piece of a body; an error breaks it off, so that nobody takes it for whole.
fn piece(next: Result<Option<Vec<u8>>>) -> Option<io::Result<Bytes>> {
    match next {
        Ok(piece) => piece.map(|piece| Ok(Bytes::from(piece))),
        Err(error) => {
            tracing::warn!(%error, "a transfer broke off");
            Some(Err(io::ErrorKind::ConnectionAborted.into()))
        }
    }
}

fn download(headers: &HeaderMap, mut file: Download) -> Result<Response> {
    let size = file.size();
    let tag = format!("\"{}\"", file.tag());
    let same = headers.get(IF_RANGE).is_none_or(|wanted| wanted.as_bytes() == tag.as_bytes());
    let range = headers.get(RANGE).filter(|_| same).and_then(|range| range.to_str().ok());
    let range = range.and_then(|range| one_range(range, size));
    if let Some(range) = &range {
        file.only(range.clone())?;
    }
    let sent = range.clone().map_or(0..size, |range| range.start..range.end.min(size));
    let pieces = futures::stream::unfold(file, |mut file| async {
        piece(file.next().await).map(|piece| (piece, file))
    });
    let status = if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let kind = HeaderValue::from_static("application/octet-stream");
    let mut response = reply::bytes(status, kind, Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(sent.end - sent.start));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // A page that somebody else wrote is saved, not shown.
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (ETAG, tag)));
    if range.is_some() {
        let text = format!("bytes {}-{}/{size}", sent.start, sent.end - 1);
        headers.extend(HeaderValue::from_str(&text).ok().map(|range| (CONTENT_RANGE, range)));
    }
    Ok(response)
}

/// The range of a header. `None`: it is none, or several, and all is sent (RFC 9110).
fn one_range(text: &str, size: u64) -> Option<Range<u64>> {
    let (unit, range) = text.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // One that is too large for us lies past every end.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    match (first.trim(), last.trim()) {
        ("", last) => {
            let count = number(last)?;
            // None of the end, or of nothing, is a range past the end.
            Some(if count == 0 { size..size } else { size.saturating_sub(count)..size })
        }
        (first, "") => Some(number(first)?..size.max(1)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then(|| first..last.saturating_add(1))
        }
    }
}

#[cfg(test)]
mod tests;
