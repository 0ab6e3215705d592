//! Files below `/workspace`: one method for each route.

use crate::error::innermost;
use crate::http::{ANSWER, body, path_segment, sandbox_path};
use crate::watch::WatchStream;
use crate::{Client, Error, Result};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, RANGE};
use reqwest::{Method, RequestBuilder, Response};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use types::{
    DeleteFileResult, ErrorCode, FileInfo, FilesRequest, FilesResult, ListFilesResult,
    UnpackResult, WriteFileResult,
};

/// A transfer in which nothing moves for this long is given up.
const STALLED: Duration = Duration::from_secs(300);

/// Which part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRange {
    /// From this byte on, to the end.
    From(u64),
    /// From the first to the second byte, both included.
    Between(u64, u64),
    /// So many bytes at the end.
    Last(u64),
}

/// What a list tells of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListFiles {
    /// Also what lies in directories below.
    pub recursive: bool,
    /// Also names that begin with a dot.
    pub hidden: bool,
}

/// How to delete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteFiles {
    /// Also directories with all that is in them.
    pub recursive: bool,
    /// Nothing there is fine.
    pub force: bool,
}

/// Bytes that come one after the other.
#[derive(Debug)]
pub struct Download(Response);

impl Download {
    /// How many bytes come in all, where the server said so.
    pub fn size(&self) -> Option<u64> {
        self.0.content_length()
    }

    /// The next bytes; `None` at the end. Cancel-safe. Errors: [`Error::Protocol`] where the
    /// connection breaks before the end: what came is not all.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let chunk = tokio::time::timeout(STALLED, self.0.chunk()).await.map_err(|_| stalled())?;
        chunk.map_err(|e| Error::Protocol(format!("the transfer broke off: {}", innermost(&e))))
    }

    /// All that comes, in memory.
    pub async fn bytes(mut self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(bytes) = self.next().await? {
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }
}

/// Paths are bytes: absolute below `/workspace`, or relative to it.
impl Client {
    /// `GET …/files/{path}`: the bytes of a file, or a part of them.
    pub async fn read_file(
        &self,
        id: &str,
        path: impl AsRef<[u8]>,
        range: Option<FileRange>,
    ) -> Result<Download> {
        let mut request = self.file(Method::GET, id, path.as_ref(), "")?;
        if let Some(range) = range {
            request = request.header(
                RANGE,
                match range {
                    FileRange::From(first) => format!("bytes={first}-"),
                    FileRange::Between(first, last) => format!("bytes={first}-{last}"),
                    FileRange::Last(count) => format!("bytes=-{count}"),
                },
            );
        }
        Ok(Download(self.headed(request).await?))
    }

    /// `GET …/files/{path}?stat`: what is told of a file; links are not followed.
    pub async fn stat_file(&self, id: &str, path: impl AsRef<[u8]>) -> Result<FileInfo> {
        self.json(self.file(Method::GET, id, path.as_ref(), "?stat")?).await
    }

    /// `GET …/files/{path}?list`: what lies in a directory.
    pub async fn list_files(
        &self,
        id: &str,
        path: impl AsRef<[u8]>,
        list: ListFiles,
    ) -> Result<ListFilesResult> {
        let recursive = if list.recursive { "&recursive" } else { "" };
        let hidden = if list.hidden { "&includeHidden" } else { "" };
        let query = format!("?list{recursive}{hidden}");
        self.json(self.file(Method::GET, id, path.as_ref(), &query)?).await
    }

    /// `PUT …/files/{path}`: writes a file, whole or not at all. `size`: how many bytes come,
    /// where that is known. Errors: also [`Error::Protocol`] where `bytes` fails, with its words.
    pub async fn write_file<S>(
        &self,
        id: &str,
        path: impl AsRef<[u8]>,
        bytes: S,
        size: Option<u64>,
    ) -> Result<WriteFileResult>
    where
        S: Stream<Item = io::Result<Bytes>> + Send + 'static,
    {
        let request = self.file(Method::PUT, id, path.as_ref(), "")?;
        let request = request.header(CONTENT_TYPE, "application/octet-stream");
        let response = self.upload(request, bytes, size).await?;
        self.read(response).await
    }

    /// `DELETE …/files/{path}`.
    pub async fn delete_file(
        &self,
        id: &str,
        path: impl AsRef<[u8]>,
        how: DeleteFiles,
    ) -> Result<DeleteFileResult> {
        let query = match (how.recursive, how.force) {
            (false, false) => "",
            (true, false) => "?recursive",
            (false, true) => "?force",
            (true, true) => "?recursive&force",
        };
        self.json(self.file(Method::DELETE, id, path.as_ref(), query)?).await
    }

    /// `POST …/files`: makes directories, moves, copies, asks.
    pub async fn files(&self, id: &str, files: &FilesRequest) -> Result<FilesResult> {
        let request = self.request(Method::POST, &sandbox_path(id, "/files")?);
        // A copy of a large tree takes its time.
        let response = self.send(body(request, files).timeout(ANSWER.saturating_mul(5))).await?;
        self.read(response).await
    }

    /// `GET …/archive?path=`: a directory's contents, or one file, as a tar archive.
    pub async fn archive(&self, id: &str, path: impl AsRef<[u8]>) -> Result<Download> {
        let request = self.archive_request(Method::GET, id, path.as_ref())?;
        Ok(Download(self.headed(request).await?))
    }

    /// `PUT …/archive?path=`: unpacks a tar archive into a directory. Errors: also
    /// [`Error::Protocol`] where `bytes` fails, with its words; then a part may be unpacked.
    pub async fn unpack<S>(
        &self,
        id: &str,
        path: impl AsRef<[u8]>,
        bytes: S,
    ) -> Result<UnpackResult>
    where
        S: Stream<Item = io::Result<Bytes>> + Send + 'static,
    {
        let request = self.archive_request(Method::PUT, id, path.as_ref())?;
        let request = request.header(CONTENT_TYPE, "application/x-tar");
        let response = self.upload(request, bytes, None).await?;
        self.read(response).await
    }

    /// `GET …/watch?path=`: what changes below a path from now on. The first event is `ready`.
    pub async fn watch(&self, id: &str, path: impl AsRef<[u8]>) -> Result<WatchStream> {
        let query = format!("/watch?path={}", path_segment(path.as_ref()));
        let request = self.request(Method::GET, &sandbox_path(id, &query)?);
        Ok(WatchStream::new(self.headed(request.header(ACCEPT, "text/event-stream")).await?))
    }

    fn file(&self, method: Method, id: &str, path: &[u8], query: &str) -> Result<RequestBuilder> {
        let path = url_path(path)?;
        Ok(self.request(method, &sandbox_path(id, &format!("/files/{path}{query}"))?))
    }

    fn archive_request(&self, method: Method, id: &str, path: &[u8]) -> Result<RequestBuilder> {
        let query = format!("/archive?path={}", path_segment(path));
        Ok(self.request(method, &sandbox_path(id, &query)?))
    }

    /// Sends what answers with many bytes: only the head has to come soon.
    async fn headed(&self, request: RequestBuilder) -> Result<Response> {
        tokio::time::timeout(ANSWER, self.send(request))
            .await
            .map_err(|_| Error::Protocol(format!("no answer from {} in time", self.address())))?
    }

    /// Sends bytes for as long as they move.
    async fn upload<S>(
        &self,
        request: RequestBuilder,
        bytes: S,
        size: Option<u64>,
    ) -> Result<Response>
    where
        S: Stream<Item = io::Result<Bytes>> + Send + 'static,
    {
        let moved = Arc::new(AtomicU64::new(0));
        // Dropped with this call, also where the answer came early: what is still to be sent is
        // of no use to anybody then.
        let (_over, over) = oneshot::channel::<()>();
        let bytes = until(over, bytes, moved.clone());
        let request = match size {
            Some(size) => request.header(CONTENT_LENGTH, size),
            None => request,
        };
        let sent = self.send(request.body(reqwest::Body::wrap_stream(bytes)));
        tokio::pin!(sent);
        let mut before = 0;
        loop {
            match tokio::time::timeout(STALLED, &mut sent).await {
                Ok(answer) => return answer,
                Err(_) if moved.load(Ordering::Relaxed) == before => return Err(stalled()),
                Err(_) => before = moved.load(Ordering::Relaxed),
            }
        }
    }
}

/// The pieces, counted, until nobody wants them any more: then an error, so that they never look
/// like all.
fn until<S>(
    over: oneshot::Receiver<()>,
    pieces: S,
    moved: Arc<AtomicU64>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static
where
    S: Stream<Item = io::Result<Bytes>> + Send + 'static,
{
    let state = Some((over, Box::pin(pieces)));
    stream::unfold(state, move |state| {
        let moved = moved.clone();
        async move {
            let (mut over, mut pieces) = state?;
            let piece = tokio::select! {
                biased;
                _ = &mut over => return Some((Err(io::ErrorKind::ConnectionAborted.into()), None)),
                piece = pieces.next() => piece?,
            };
            moved.fetch_add(1, Ordering::Relaxed);
            Some((piece, Some((over, pieces))))
        }
    })
}

fn stalled() -> Error {
    Error::Protocol(format!("nothing moved for {} s", STALLED.as_secs()))
}

/// The path as it stands in a URL: from `/workspace` on, each part escaped. Parts that URLs
/// would drop on the way (`.` and `..`) are resolved here, by the server's own rule. Errors:
/// `PERMISSION_DENIED` where it leads out.
fn url_path(path: &[u8]) -> Result<String> {
    let mut parts: Vec<&[u8]> = Vec::new();
    if !path.starts_with(b"/") {
        parts.push(b"workspace");
    }
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop().ok_or_else(|| outside(path))?;
            }
            part => parts.push(part),
        }
    }
    match parts.split_first() {
        Some((first, rest)) if *first == b"workspace" => {
            Ok(rest.iter().map(|part| path_segment(part)).collect::<Vec<_>>().join("/"))
        }
        _ => Err(outside(path)),
    }
}

fn outside(path: &[u8]) -> Error {
    let path = String::from_utf8_lossy(path);
    let text = format!("{path:?} leads out of /workspace");
    Error::Api(
        types::Error::new(ErrorCode::PermissionDenied, text)
            .with("errno", "EACCES")
            .with("path", path),
    )
}

#[cfg(test)]
mod tests;
