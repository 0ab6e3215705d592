//! `sandkeep cp`: files between here and a sandbox's `/workspace`.
//!
//! Trees and files travel as tar archives, so that modes, times and links come along: `sides`
//! tells what was meant, `upload` and `download` find the place, `pack` and `unpack` read and
//! write the archive in a thread of their own, with a `pipe` between.

mod download;
mod entry;
mod pack;
mod pipe;
mod sides;
mod unpack;
mod upload;

use crate::cli::Global;
use crate::fail::Failure;
use crate::{connect, output, signals};
use indicatif::{ProgressBar, ProgressStyle};
use sides::{Side, side};
use std::ffi::OsString;
use std::pin::pin;
use std::time::Duration;

/// Copy files and directories into a sandbox, or out of it
///
/// One of SRC and DST is NAME:PATH, a path in the workspace of a sandbox, absolute below
/// /workspace or relative to it; the other is a path here, or `-`. A path here that looks like
/// NAME:PATH is written with a slash or a dot in front: ./a:b.
///
/// Where DST is a directory, SRC goes into it under its own name; where nothing is there, it
/// becomes DST; where a file is there, a file replaces it. The directory above must be there.
/// DST/ must be a directory, or SRC one. SRC/. means what is in a directory, without itself.
/// Directories are copied with all that is in them, into what is there already.
///
/// Modes, times and symbolic links are kept, owners are not. Links that lead out of the copied
/// tree, FIFOs, sockets and devices are left out and named; the exit code is 1 then. `-` is a tar
/// archive: of what is in a directory, or of one file, to standard output; or from standard input
/// into a directory.
#[derive(clap::Args)]
pub struct Args {
    /// What to copy.
    #[arg(value_name = "SRC")]
    from: OsString,
    /// Where to.
    #[arg(value_name = "DST")]
    to: OsString,
}

/// Exit code where something was left out.
const LEFT_OUT: u8 = 1;

impl Args {
    /// Copies.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let (from, to) = (side(&self.from), side(&self.to));
        let client = connect::client(global)?;
        let mut interrupted = pin!(signals::asked_to_end()?);
        let bar = bar()?;
        let done = match (from, to) {
            (Side::Remote(id, path), Side::Stdio) => {
                bar.finish_and_clear();
                let copy = download::to_stdout(&client, &id, &path);
                tokio::select! {
                    biased;
                    signal = &mut interrupted => return Ok(128 + signal),
                    done = copy => done?,
                }
                return Ok(0);
            }
            (Side::Remote(id, path), Side::Local(to)) => {
                download::run(&client, &id, &path, &to, &bar, &mut interrupted).await
            }
            (Side::Stdio, Side::Remote(id, path)) => {
                tokio::select! {
                    biased;
                    signal = &mut interrupted => return Ok(128 + signal),
                    done = upload::from_stdin(&client, &id, &path, &bar) => done,
                }
            }
            (Side::Local(from), Side::Remote(id, path)) => {
                tokio::select! {
                    biased;
                    signal = &mut interrupted => return Ok(128 + signal),
                    done = upload::run(&client, &id, &path, &from, &bar) => done,
                }
            }
            (Side::Remote(..), Side::Remote(..)) => {
                let failure = Failure::new("SRC and DST are both in sandboxes");
                return Err(failure.hint("copy by way of a directory here, or `-`").into());
            }
            _ => {
                let failure = Failure::new("neither SRC nor DST is in a sandbox");
                return Err(failure.hint("one of them is NAME:PATH").into());
            }
        };
        bar.finish_and_clear();
        let copied = done?;
        if global.json {
            output::json(&copied)?;
        }
        Ok(copied.exit_code())
    }
}

/// What a copy did.
#[derive(Debug, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Copied {
    /// Files, directories and links.
    entries: u64,
    /// Bytes of files.
    bytes: u64,
    /// What was left out.
    left_out: u64,
    /// The signal that ended it early.
    #[serde(skip)]
    signal: Option<u8>,
}

impl Copied {
    fn exit_code(&self) -> u8 {
        match self.signal {
            Some(signal) => 128 + signal,
            None if self.left_out > 0 => LEFT_OUT,
            None => 0,
        }
    }
}

/// Told on a terminal alone.
fn bar() -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new_spinner();
    let told = "{spinner} {binary_bytes} ({binary_bytes_per_sec}) {wide_msg}";
    bar.set_style(ProgressStyle::with_template(told)?);
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}
