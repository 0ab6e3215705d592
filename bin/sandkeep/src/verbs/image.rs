//! `sandkeep image`: root file systems that instances start from.

use crate::cli::Global;
use crate::fail::Failure;
use crate::{connect, output};
use clap::Subcommand;
use containers::{HOST, ImageInfo, Images, Progress};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};

/// Import, list and remove images
///
/// Works on the data directory itself (--data), whether a server runs or not.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Import a root file system
    Import {
        /// What to call it.
        #[arg(value_name = "NAME")]
        name: String,
        /// A tar archive (plain, gzip or zstd) or a directory.
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
    /// List the imported images; `host`, the machine's own programs, is always there
    Ls,
    /// Remove images that no running instance uses
    Rm {
        /// The images.
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}

impl Args {
    /// Does it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let data = connect::data_dir(global.data.as_deref())?;
        match self.verb {
            Verb::Import { name, path } => {
                import(&Images::open(&data)?, &name, &path, global.json)?;
                Ok(0)
            }
            Verb::Ls => {
                list(&existing(&data)?, global.json)?;
                Ok(0)
            }
            Verb::Rm { names } => {
                let images = existing(&data)?;
                let remove = async |name: &String| {
                    if name == HOST {
                        return Err(Failure::new("the image \"host\" is built in").into());
                    }
                    let images = images.as_ref();
                    let missing = || containers::Error::ImageNotFound(name.clone());
                    Ok(images.ok_or_else(missing)?.remove(name)?)
                };
                Ok(super::each(&names, remove).await)
            }
        }
    }
}

/// The images of a data directory; `None` where there is no such directory, which looking must
/// not make.
fn existing(data: &Path) -> anyhow::Result<Option<Images>> {
    if data.exists() { Ok(Some(Images::open(data)?)) } else { Ok(None) }
}

fn import(images: &Images, name: &str, path: &Path, json: bool) -> anyhow::Result<()> {
    // Hidden by itself where standard error is no terminal.
    let bar = ProgressBar::new_spinner();
    let told = "{spinner} {binary_bytes} read ({binary_bytes_per_sec}), {msg}";
    bar.set_style(ProgressStyle::with_template(told)?);
    let mut known = false;
    let info = images.import(name, path, &mut |progress: Progress| {
        if let (Some(total), false) = (progress.total, known) {
            known = true;
            let told = "{bar:30} {percent}% of {binary_total_bytes}, {msg}";
            if let Ok(style) = ProgressStyle::with_template(told) {
                bar.set_style(style);
            }
            bar.set_length(total);
        }
        bar.set_position(progress.read);
        bar.set_message(format!("{} entries", progress.entries));
    });
    bar.finish_and_clear();
    let info = info?;
    if json {
        return output::json(&info);
    }
    output::say(format_args!(
        "imported {}: {} entries, {} bytes",
        info.name, info.entries, info.bytes
    ));
    if info.skipped_devices > 0 {
        output::say(format_args!("{} device nodes were left out", info.skipped_devices));
    }
    Ok(())
}

fn list(images: &Option<Images>, json: bool) -> anyhow::Result<()> {
    let all = images.as_ref().map_or(Ok(Vec::new()), Images::list)?;
    if json {
        return output::json(&all);
    }
    output::rows(
        &["NAME", "ENTRIES", "BYTES", "IMPORTED AT", "SHA256"],
        all.iter().map(row).collect(),
    )
}

fn row(image: &ImageInfo) -> Vec<String> {
    vec![
        image.name.clone(),
        image.entries.to_string(),
        image.bytes.to_string(),
        output::time(image.imported_at_ms),
        image.sha256.clone(),
    ]
}
