//! `sandkeep backup`: all that a data directory keeps, in one file.

use crate::cli::Global;
use crate::connect::{self, Held};
use crate::fail::Failure;
use crate::output::say;
use crate::{output, signals};
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::NamedTempFile;

/// Write a backup of the data directory into a file
///
/// Sandboxes of all owners with their workspaces, contexts and history, and tokens as hashes;
/// images and engines are left out. A server goes on meanwhile; where none uses the data directory
/// it is read as it is. The file appears under its name only once it is whole. It has secrets: the
/// variables and files of sandboxes.
#[derive(clap::Args)]
pub struct Args {
    /// The file, which must not be there; - for standard output.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Args {
    /// Writes it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let stopped = signals::asked_to_end()?;
        tokio::select! {
            done = self.write(global) => done,
            // Half a file goes with what is dropped here.
            signal = stopped => Ok(128 + signal),
        }
    }

    async fn write(self, global: &Global) -> anyhow::Result<u8> {
        if self.file.as_os_str() == "-" {
            let out = io::stdout();
            if out.is_terminal() {
                let text = "a backup is not for a terminal";
                return Err(Failure::new(text).hint("name a file, or send it on with |").into());
            }
            write(global, out).await?;
            return Ok(0);
        }
        if std::fs::symlink_metadata(&self.file).is_ok() {
            let text = format!("{} is there already", self.file.display());
            return Err(Failure::new(text).hint("choose another name, or remove it").into());
        }
        let part = partial(&self.file)?;
        let out = part.as_file().try_clone().context("cannot write the backup")?;
        write(global, out).await?;
        let written = part.as_file().sync_all().and_then(|()| part.as_file().metadata());
        let bytes = written.context("cannot write the backup")?.len();
        part.persist_noclobber(&self.file)
            .with_context(|| format!("cannot name the file {}", self.file.display()))?;
        if global.json {
            output::json(&serde_json::json!({ "file": self.file, "bytes": bytes }))?;
        }
        Ok(0)
    }
}

/// A file beside that one, which goes where it is not kept. It is for its owner's eyes alone.
fn partial(file: &Path) -> anyhow::Result<NamedTempFile> {
    let name = file.file_name().context("FILE names no file")?;
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix(name).suffix(".partial").tempfile_in(dir);
    made.with_context(|| format!("cannot write in {}", dir.display()))
}

async fn write(global: &Global, out: impl Write + Send + 'static) -> anyhow::Result<()> {
    let bar = bar();
    let mut out = bar.wrap_write(out);
    match connect::held(global, false).await? {
        Held::Server(client) => {
            let mut pieces = client.backup().await?;
            while let Some(piece) = pieces.next().await? {
                out.write_all(&piece).context("cannot write the backup")?;
            }
            out.flush().context("cannot write the backup")?;
        }
        Held::Here(store, data) => {
            let now = objects::Clock::from_environment().now_ms();
            let report = sandbox::backup::write(&store, &data, now, out).await;
            store.close().await;
            for path in report?.left_out {
                bar.suspend(|| say(format_args!("left out: {path}")));
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Hidden by itself where standard error is no terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template(
        "{spinner} {binary_bytes} written, {binary_bytes_per_sec} ({elapsed})",
    ) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}
