//! Into a sandbox.

use super::Copied;
use super::pack;
use super::pipe::{Out, Piece, pipe};
use super::sides::{is_contents, is_directory, joined, parts};
use crate::fail::Failure;
use bytes::Bytes;
use client::{Client, Error, ListFiles};
use futures::{Stream, StreamExt as _, stream};
use indicatif::ProgressBar;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use tokio::io::AsyncReadExt as _;
use types::{ErrorCode, FileType, FilesOp, FilesRequest, SandboxId};

/// Bytes that are read at once of what has no length.
const PIECE: usize = 64 << 10;

/// What is at a path of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum There {
    Nothing,
    File,
    Directory,
}

/// What is there; links are followed.
pub async fn there(client: &Client, id: &SandboxId, path: &[u8]) -> anyhow::Result<There> {
    let kind = match client.stat_file(id.as_str(), path).await {
        Ok(info) => info.kind,
        Err(error) if is_nothing(&error) => {
            // A sandbox that comes into being has an empty workspace.
            let root = parts(path).is_some_and(|parts| parts.len() == 1);
            return Ok(if root { There::Directory } else { There::Nothing });
        }
        Err(error) => return Err(error.into()),
    };
    match kind {
        FileType::Directory => Ok(There::Directory),
        FileType::File => Ok(There::File),
        FileType::Other => {
            Err(Failure::new("what is there is neither a file nor a directory").into())
        }
        FileType::Symlink => {
            match client.list_files(id.as_str(), path, ListFiles::default()).await {
                Ok(_) => Ok(There::Directory),
                Err(error) if error.code() == Some(ErrorCode::NotDirectory) => Ok(There::File),
                Err(error) if is_nothing(&error) => Ok(There::Nothing),
                Err(error) => Err(error.into()),
            }
        }
    }
}

fn is_nothing(error: &Error) -> bool {
    matches!(error.code(), Some(ErrorCode::FileNotFound | ErrorCode::SandboxNotFound))
}

/// Copies a file or a directory into a workspace.
pub async fn run(
    client: &Client,
    id: &SandboxId,
    to: &[u8],
    from: &Path,
    bar: &ProgressBar,
) -> anyhow::Result<Copied> {
    let unreadable = |e: io::Error| Failure::new(format!("cannot read {}: {e}", from.display()));
    let meta = tokio::fs::metadata(from).await.map_err(unreadable)?;
    let source = from.as_os_str().as_bytes();
    let whole = parts(to).ok_or_else(|| outside(to))?;
    let there = there(client, id, to).await?;
    if is_directory(to) && there == There::File {
        return Err(Failure::new("a file is at DST, and a directory was meant").into());
    }
    if meta.is_dir() {
        let mut place: Vec<&[u8]> = whole;
        let canonical;
        match there {
            There::File => {
                let failure = Failure::new("a file is at DST, which no directory can become");
                return Err(failure.into());
            }
            There::Directory if is_contents(source) => {}
            There::Directory => {
                canonical = std::fs::canonicalize(from).map_err(unreadable)?;
                // The root of all has no name; what is in it goes in.
                place.extend(canonical.file_name().map(|name| name.as_bytes()));
            }
            There::Nothing => {}
        }
        let place_path = joined(&place);
        make_directory(client, id, &place_path).await?;
        let (from, depth) = (from.to_owned(), place.len() - 1);
        return send(client, id, &place_path, bar, move |out| pack::tree(&from, depth, out)).await;
    }
    anyhow::ensure!(!is_contents(source), "{} is no directory", from.display());
    let name;
    let (above, name): (Vec<&[u8]>, &[u8]) = match there {
        There::Directory => {
            name = from.file_name().map(|n| n.as_bytes().to_vec()).unwrap_or_default();
            (whole, &name)
        }
        There::Nothing if is_directory(to) => {
            return Err(Failure::new("the directory DST is not there").into());
        }
        There::Nothing | There::File => match whole.split_last() {
            Some((last, above)) if !above.is_empty() => (above.to_vec(), last),
            _ => return Err(outside(to).into()),
        },
    };
    if !meta.is_file() {
        // A pipe, say: its end tells its length.
        let path = joined(&[&above[..], &[name]].concat());
        return stream_file(client, id, &path, from, bar).await;
    }
    bar.set_length(meta.len());
    let (from, name) = (from.to_owned(), name.to_vec());
    send(client, id, &joined(&above), bar, move |out| pack::file(&from, &name, out)).await
}

/// Unpacks what comes on standard input.
pub async fn from_stdin(
    client: &Client,
    id: &SandboxId,
    to: &[u8],
    bar: &ProgressBar,
) -> anyhow::Result<Copied> {
    let bytes = counted(read(tokio::io::stdin()), bar);
    let done = client.unpack(id.as_str(), to, bytes).await?;
    Ok(Copied { entries: done.entries, bytes: done.bytes, ..Copied::default() })
}

async fn make_directory(client: &Client, id: &SandboxId, path: &[u8]) -> anyhow::Result<()> {
    if parts(path).is_some_and(|parts| parts.len() == 1) {
        return Ok(());
    }
    let (text, base64) = client::path_fields(path);
    let mkdir = FilesRequest {
        op: FilesOp::Mkdir,
        path: text,
        path_base64: base64,
        new_path: None,
        new_path_base64: None,
        recursive: None,
        overwrite: None,
    };
    match client.files(id.as_str(), &mkdir).await {
        Ok(_) => Ok(()),
        // As long as it is a directory, unpacking into it will do; else that tells.
        Err(error) if error.code() == Some(ErrorCode::FileExists) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Packs in a thread of its own and unpacks there.
async fn send(
    client: &Client,
    id: &SandboxId,
    to: &[u8],
    bar: &ProgressBar,
    pack: impl FnOnce(Out) -> anyhow::Result<Copied> + Send + 'static,
) -> anyhow::Result<Copied> {
    let (sender, receiver) = pipe();
    let last = sender.clone();
    let packing = tokio::task::spawn_blocking(move || {
        let packed = pack(Out::new(sender));
        if packed.is_err() {
            // The server must not take what there is for all.
            let _ = last.blocking_send(Err(io::ErrorKind::InvalidData.into()));
        }
        packed
    });
    let pieces = stream::unfold(receiver, |mut receiver| async move {
        let piece: Piece = receiver.recv().await?;
        Some((piece, receiver))
    });
    let sent = client.unpack(id.as_str(), to, counted(pieces, bar)).await;
    match (sent, packing.await?) {
        (Ok(_), packed) => packed,
        // A server that refuses reads no further, and packing has nobody to pack for.
        (Err(error @ Error::Api(_)), _) => Err(error.into()),
        // It broke off because of what could not be packed.
        (Err(error), Err(why)) if !is_gone(&why) => {
            let _ = error;
            Err(why)
        }
        (Err(error), _) => Err(error.into()),
    }
}

fn is_gone(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

async fn stream_file(
    client: &Client,
    id: &SandboxId,
    to: &[u8],
    from: &Path,
    bar: &ProgressBar,
) -> anyhow::Result<Copied> {
    let file = tokio::fs::File::open(from)
        .await
        .map_err(|e| Failure::new(format!("cannot read {}: {e}", from.display())))?;
    let done = client.write_file(id.as_str(), to, counted(read(file), bar), None).await?;
    Ok(Copied { entries: 1, bytes: done.size, ..Copied::default() })
}

fn read(
    from: impl tokio::io::AsyncRead + Unpin + Send + 'static,
) -> impl Stream<Item = Piece> + Send {
    stream::unfold(from, |mut from| async move {
        let mut piece = Vec::with_capacity(PIECE);
        match from.read_buf(&mut piece).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(Bytes::from(piece)), from)),
            Err(error) => Some((Err(error), from)),
        }
    })
}

fn counted(
    pieces: impl Stream<Item = Piece> + Send + 'static,
    bar: &ProgressBar,
) -> impl Stream<Item = Piece> + Send + 'static {
    let bar = bar.clone();
    pieces.inspect(move |piece| {
        if let Ok(piece) = piece {
            bar.inc(piece.len() as u64);
        }
    })
}

fn outside(path: &[u8]) -> Failure {
    let path = String::from_utf8_lossy(path);
    Failure::new(format!("{path:?} leads out of /workspace"))
}
