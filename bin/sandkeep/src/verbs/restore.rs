//! `sandkeep restore`: a backup becomes a data directory again.

use crate::cli::Global;
use crate::fail::Failure;
use crate::output;
use anyhow::Context as _;
use std::fs::File;
use std::path::PathBuf;

/// Restore a backup into an empty directory
///
/// Everything is checked before anything counts: a damaged or half backup leaves the directory as
/// it was. Nothing runs in what was restored, and every sandbox counts as active now. Images are
/// imported anew.
#[derive(clap::Args)]
pub struct Args {
    /// The backup.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Args {
    /// Restores it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let Some(data) = global.data.as_deref().filter(|dir| !dir.as_os_str().is_empty()) else {
            let hint = "name an empty directory with --data DIR";
            return Err(Failure::new("where to is not said").hint(hint).into());
        };
        let data = std::path::absolute(data)?;
        let file = File::open(&self.file);
        let file = file.with_context(|| format!("cannot read {}", self.file.display()))?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let now = objects::Clock::from_environment().now_ms();
        let report = sandbox::backup::restore(file, &data, now)?;
        if global.json {
            let (sandboxes, bytes) = (report.sandboxes, report.bytes);
            output::json(&serde_json::json!({ "sandboxes": sandboxes, "bytes": bytes }))?;
        } else {
            output::say(format_args!(
                "restored {} sandboxes into {}",
                report.sandboxes,
                data.display()
            ));
        }
        Ok(0)
    }
}
