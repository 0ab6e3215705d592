//! `sandkeep restore`: a backup becomes a data directory again.

use crate::cli::Global;
use crate::fail::Failure;
use crate::output::{self, say};
use crate::verbs::engines::CacheArgs;
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use interpreters::engines::Cache;
use sandbox::backup::Report;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Restore a backup into an empty data directory
///
/// Everything is checked before anything counts: a damaged or half backup leaves the directory as
/// it was. No instance runs in what was restored; those that ran when the backup was made are
/// recorded as stopped, cause unknown, when a server starts. What had time left before it expires
/// has it again. Images are imported anew, and engines installed.
#[derive(clap::Args)]
pub struct Args {
    /// The backup; - for standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    cache: CacheArgs,
}

impl Args {
    /// Restores it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let Some(data) = global.data.as_deref().filter(|dir| !dir.as_os_str().is_empty()) else {
            let hint = "name an empty directory with --data DIR";
            return Err(Failure::new("where to is not said").hint(hint).into());
        };
        let data = std::path::absolute(data)?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let to = data.clone();
        // It blocks, and has gigabytes to read.
        let report = tokio::task::spawn_blocking(move || restore(&self.file, &to)).await??;
        let cache = self.cache.cache();
        let missing = missing(&report, &cache);
        if global.json {
            let needed = missing.iter().map(|(engine, version)| {
                serde_json::json!({
                    "engine": engine, "version": version,
                    "command": format!("sandkeep engines install {engine}"),
                })
            });
            output::json(&serde_json::json!({
                "sandboxes": report.sandboxes,
                "bytes": report.bytes,
                "createdAt": types::iso8601(report.at_ms),
                "leftOut": report.left_out,
                "missingEngines": needed.collect::<Vec<_>>(),
            }))?;
            return Ok(0);
        }
        for path in &report.left_out {
            say(format_args!("not in the backup: {path}"));
        }
        for (engine, version) in &missing {
            say(format_args!(
                "contexts need the engine {engine} ({version}), which is not installed here: \
                 sandkeep engines install {engine}"
            ));
        }
        say(format_args!(
            "restored {} sandboxes, as they were at {}, into {}",
            report.sandboxes,
            types::iso8601(report.at_ms),
            data.display()
        ));
        Ok(0)
    }
}

fn restore(file: &Path, data: &Path) -> anyhow::Result<Report> {
    let now = objects::Clock::from_environment().now_ms();
    if file.as_os_str() == "-" {
        let bar = ProgressBar::new_spinner();
        return read(io::stdin().lock(), &bar, data, now);
    }
    let opened = File::open(file).and_then(|f| Ok((f.metadata()?, f)));
    let (meta, opened) = opened.with_context(|| format!("cannot read {}", file.display()))?;
    let bar =
        if meta.is_file() { ProgressBar::new(meta.len()) } else { ProgressBar::new_spinner() };
    read(opened, &bar, data, now)
}

/// The bar is hidden by itself where standard error is no terminal.
fn read(from: impl Read, bar: &ProgressBar, data: &Path, now: i64) -> anyhow::Result<Report> {
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {binary_bytes} read, {binary_bytes_per_sec}")
    {
        bar.set_style(style);
    }
    let restored = sandbox::backup::restore(bar.wrap_read(from), data, now);
    bar.finish_and_clear();
    Ok(restored?)
}

/// The engines of which a build is needed that is not there, and the interpreter and its version.
fn missing(report: &Report, cache: &Cache) -> BTreeMap<String, String> {
    // A cache that cannot be read has nothing that can be used.
    let there = cache.builds().unwrap_or_default();
    let needed = report
        .builds
        .iter()
        .filter(|needed| !there.iter().any(|b| (&b.wasm, &b.base) == (&needed.wasm, &needed.base)));
    needed.map(|needed| (needed.engine.clone(), needed.version.clone())).collect()
}
