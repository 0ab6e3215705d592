//! `sandkeep doctor`: what the machine lacks, and what was left behind on it.

use crate::cli::Global;
use crate::doctor::{self, Check, Status};
use crate::verbs::engines::CacheArgs;
use crate::{connect, output};

/// Tell what the machine lacks, and the cure
///
/// Exit code 0: all that is needed is there; 1: something needed is missing.
#[derive(clap::Args)]
pub struct Args {
    /// List what instances left behind instead: processes, cgroups, mounts, directories. Exit
    /// code 1 where there is any.
    #[arg(long)]
    leaks: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

impl Args {
    /// Tells it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let data = connect::data_dir(global.data.as_deref())?;
        if self.leaks {
            return leaks(&data, global.json);
        }
        let cache = self.cache.cache();
        let checks = doctor::examine(&data, &cache, connect::client(global)).await;
        if global.json {
            output::json(&checks)?;
        } else {
            tell(&checks)?;
        }
        Ok(u8::from(checks.iter().any(|c| c.status == Status::Missing)))
    }
}

fn tell(checks: &[Check]) -> anyhow::Result<()> {
    let mut text = String::new();
    for check in checks {
        let (word, found) = (check.status.word(), output::plain(&check.found));
        text += &format!("{word:8}{:29}{found}\n", check.name);
        if let Some(cure) = &check.cure {
            text += &format!("{:8}cure: {}\n", "", output::plain(cure));
        }
    }
    output::bytes(text.as_bytes())
}

fn leaks(data: &std::path::Path, json: bool) -> anyhow::Result<u8> {
    let leaks = if data.exists() { containers::leaks(data)? } else { Vec::new() };
    if json {
        output::json(&leaks)?;
    } else {
        let text: String = leaks.iter().map(|l| output::plain(&l.to_string()) + "\n").collect();
        output::bytes(text.as_bytes())?;
        if leaks.is_empty() {
            output::say("nothing was left behind");
        }
    }
    Ok(u8::from(!leaks.is_empty()))
}
