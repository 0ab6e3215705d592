//! `sandkeep backup`: all that a data directory keeps, in one file.

use crate::cli::Global;
use crate::fail::Failure;
use crate::output::say;
use crate::{connect, output};
use anyhow::Context as _;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Write a backup of the data directory into a file
///
/// Sandboxes with their workspaces, their contexts and their history; images are left out. The
/// server of the directory goes on meanwhile; where none runs the directory is read as it is. The
/// file appears under its name only once it is whole.
#[derive(clap::Args)]
pub struct Args {
    /// The file, which must not be there.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Args {
    /// Writes it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let part = partial(&self.file)?;
        if std::fs::symlink_metadata(&self.file).is_ok() {
            let text = format!("{} is there already", self.file.display());
            return Err(Failure::new(text).hint("choose another name, or remove it").into());
        }
        // The variables of sandboxes are secrets.
        let options = File::options().write(true).create(true).truncate(true).mode(0o600).clone();
        let out = options.open(&part).with_context(|| format!("cannot write {}", part.display()))?;
        let written = write(global, &out).await;
        let done = written.and_then(|()| {
            out.sync_all().with_context(|| format!("cannot write {}", part.display()))?;
            std::fs::rename(&part, &self.file)
                .with_context(|| format!("cannot name the file {}", self.file.display()))
        });
        if let Err(error) = done {
            let _ = std::fs::remove_file(&part);
            return Err(error);
        }
        if global.json {
            let bytes = std::fs::metadata(&self.file).map_or(0, |m| m.len());
            output::json(&serde_json::json!({ "file": self.file, "bytes": bytes }))?;
        }
        Ok(0)
    }
}

/// The name until it is whole.
fn partial(file: &Path) -> anyhow::Result<PathBuf> {
    let name = file.file_name().context("FILE names no file")?;
    let mut part = name.to_owned();
    part.push(".partial");
    Ok(file.with_file_name(part))
}

async fn write(global: &Global, out: &File) -> anyhow::Result<()> {
    let data = connect::data_dir(global.data.as_deref())?;
    let url = global.url.as_deref().is_some_and(|url| !url.is_empty());
    let asleep = !url
        && std::fs::symlink_metadata(connect::admin_socket(&data)).is_err()
        && std::fs::symlink_metadata(data.join("store.db")).is_ok();
    if asleep {
        return write_asleep(&data, out).await;
    }
    let mut pieces = connect::client(global)?.backup().await?;
    let mut out = out;
    while let Some(piece) = pieces.next().await? {
        out.write_all(&piece).context("cannot write the backup")?;
    }
    Ok(())
}

/// The same where no server runs. The lock keeps one from starting meanwhile.
async fn write_asleep(data: &Path, out: &File) -> anyhow::Result<()> {
    let store = store::Store::open(store::Options { dir: data.to_owned() })?;
    let now = objects::Clock::from_environment().now_ms();
    let report = sandbox::backup::write(&store, data, now, out.try_clone()?).await;
    store.close().await;
    for path in report?.left_out {
        say(format_args!("left out: {path}"));
    }
    Ok(())
}
