//! Out of a sandbox.

use super::Copied;
use super::pipe::{In, pipe};
use super::sides::{is_contents, is_directory, parts};
use super::unpack::{self, Target};
use super::upload::{There, there};
use crate::fail::Failure;
use crate::output;
use bytes::Bytes;
use client::{Client, Download};
use indicatif::ProgressBar;
use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use types::SandboxId;

/// Copies a file or a directory here. `stopped` is the signal that ends it early; no half of a
/// file is left then.
pub async fn run(
    client: &Client,
    id: &SandboxId,
    from: &[u8],
    to: &Path,
    bar: &ProgressBar,
    stopped: impl Future<Output = u8>,
) -> anyhow::Result<Copied> {
    let kind = there(client, id, from).await?;
    if kind == There::Nothing || (kind == There::File && is_directory(from)) {
        // In the server's own words.
        client.list_files(id.as_str(), from, client::ListFiles::default()).await?;
    }
    let whole = parts(from).unwrap_or_default();
    let name = whole.last().copied().unwrap_or(b"workspace");
    let target = match kind {
        There::File => file(to, name)?,
        _ => directory(to, name, is_contents(from))?,
    };
    let archive = client.archive(id.as_str(), from).await?;
    let (sender, receiver) = pipe();
    let told = bar.clone();
    let unpacking =
        tokio::task::spawn_blocking(move || unpack::unpack(In::new(receiver), &target, &told));
    let fed = async {
        let fed = feed(archive, &sender).await;
        // Without the empty piece that is the end, the thread knows that this is none.
        drop(sender);
        fed
    };
    let (fed, signal) = tokio::select! {
        biased;
        signal = stopped => (Ok(()), Some(signal)),
        fed = fed => (fed, None),
    };
    let unpacked = unpacking.await?;
    if signal.is_some() {
        return Ok(Copied { signal, ..Copied::default() });
    }
    fed?;
    unpacked
}

/// The archive itself, on standard output.
pub async fn to_stdout(client: &Client, id: &SandboxId, from: &[u8]) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() {
        let failure = Failure::new("an archive is nothing for a terminal");
        return Err(failure.hint("pass it on: `sandkeep cp NAME:PATH - | tar -t`").into());
    }
    let mut archive = client.archive(id.as_str(), from).await?;
    while let Some(bytes) = archive.next().await? {
        output::bytes(&bytes)?;
    }
    Ok(())
}

/// Passes the archive on. A thread that listens no more has its own reason.
async fn feed(
    mut archive: Download,
    to: &tokio::sync::mpsc::Sender<super::pipe::Piece>,
) -> anyhow::Result<()> {
    while let Some(bytes) = archive.next().await? {
        if !bytes.is_empty() && to.send(Ok(bytes)).await.is_err() {
            return Ok(());
        }
    }
    let _ = to.send(Ok(Bytes::new())).await;
    Ok(())
}

/// Where a file goes.
fn file(to: &Path, name: &[u8]) -> anyhow::Result<Target> {
    match unpack::is_directory(to)? {
        Some(true) => Ok(Target::File(unpack::open(to)?, name.to_vec())),
        None if is_directory(to.as_os_str().as_bytes()) => {
            Err(Failure::new(format!("the directory {} is not there", to.display())).into())
        }
        // A device or a FIFO would be gone for good, and nothing would have been written to it.
        Some(false) if std::fs::metadata(to).is_ok_and(|there| !there.is_file()) => {
            let text = format!("{} is neither a file nor a directory", to.display());
            let hint = "`-` as DST is standard output, with an archive";
            Err(Failure::new(text).hint(hint).into())
        }
        _ => {
            let name = to.file_name().ok_or_else(|| Failure::new("DST has no name"))?;
            Ok(Target::File(unpack::open(&above(to))?, name.as_bytes().to_vec()))
        }
    }
}

/// Where what is in a directory goes.
fn directory(to: &Path, name: &[u8], contents: bool) -> anyhow::Result<Target> {
    let make = |path: &Path| {
        std::fs::create_dir(path)
            .map_err(|e| Failure::new(format!("cannot make {}: {e}", path.display())))
    };
    let place = match unpack::is_directory(to)? {
        Some(false) => {
            let text = format!("{} is a file, which no directory can become", to.display());
            return Err(Failure::new(text).into());
        }
        Some(true) if contents => to.to_owned(),
        Some(true) => {
            let place = to.join(OsStr::from_bytes(name));
            // Neither here is a link followed.
            match std::fs::symlink_metadata(&place) {
                Ok(there) if there.is_dir() => {}
                Ok(_) => {
                    let text = format!("{} is there and is no directory", place.display());
                    return Err(Failure::new(text).into());
                }
                Err(_) => make(&place)?,
            }
            place
        }
        None => {
            make(to)?;
            to.to_owned()
        }
    };
    Ok(Target::Directory(unpack::open(&place)?))
}

fn above(path: &Path) -> PathBuf {
    match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above.to_owned(),
        _ => PathBuf::from("."),
    }
}
