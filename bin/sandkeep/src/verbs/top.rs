//! `sandkeep top`: the running instances and what they use.

use crate::cli::Global;
use crate::{connect, output};
use client::Client;
use serde::Serialize;
use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::time::Duration;
use types::{ObjectId, RunningInstance, RunningList, format_ms};

/// From a look to the next, and between the two that one picture needs.
const EVERY: Duration = Duration::from_secs(2);
const BETWEEN: Duration = Duration::from_millis(500);

/// Show the running instances of all owners, or of --owner, and what they use; for administrators
///
/// On a terminal again and again, until it is interrupted; else, with --once or --json, one time.
/// Columns: owner, name, CPU (100 % is one core), memory, its limit, processes, commands under way,
/// idle for, runs for.
#[derive(clap::Args)]
pub struct Args {
    /// One time, also on a terminal.
    #[arg(long)]
    once: bool,
}

/// An instance with the share of a core that it used.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Used<'a> {
    #[serde(flatten)]
    instance: &'a RunningInstance,
    cpu_percent: f64,
}

impl Args {
    /// Shows them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let client = connect::client(global)?;
        let again = !self.once && !global.json && std::io::stdout().is_terminal();
        let mut before = look(&client, global).await?;
        let mut wait = BETWEEN;
        loop {
            tokio::time::sleep(wait).await;
            let now = look(&client, global).await?;
            let used = used(&before, &now);
            if global.json {
                output::json(&used)?;
            } else {
                if again {
                    // To the upper left, and nothing below.
                    output::bytes(b"\x1b[H\x1b[2J")?;
                }
                let header =
                    ["OWNER", "NAME", "CPU %", "MEMORY", "LIMIT", "PIDS", "BUSY", "IDLE", "UP"];
                output::rows(&header, used.iter().map(|used| row(used, now.at)).collect())?;
            }
            if !again {
                return Ok(0);
            }
            (before, wait) = (now, EVERY);
        }
    }
}

async fn look(client: &Client, global: &Global) -> anyhow::Result<RunningList> {
    Ok(client.running_instances(global.owner.as_ref()).await?)
}

/// What each used between two looks. One that was not there before has used all since its start.
fn used<'a>(before: &RunningList, now: &'a RunningList) -> Vec<Used<'a>> {
    let earlier: HashMap<(ObjectId, u64), u64> =
        before.instances.iter().map(|i| ((i.object, i.generation), i.cpu_us)).collect();
    let share = |instance: &RunningInstance| {
        let known = earlier.get(&(instance.object, instance.generation));
        let since = known.map_or(instance.started_at, |_| before.at);
        let micros = (now.at - since).max(1) as f64 * 1000.0;
        instance.cpu_us.saturating_sub(known.copied().unwrap_or(0)) as f64 / micros * 100.0
    };
    let used = |instance| Used { instance, cpu_percent: (share(instance) * 10.0).round() / 10.0 };
    now.instances.iter().map(used).collect()
}

fn row(used: &Used<'_>, now: i64) -> Vec<String> {
    let Used { instance, cpu_percent } = used;
    let since = |ms: i64| format_ms((now - ms).max(0).cast_unsigned() / 1000 * 1000);
    let idle = if instance.commands > 0 { "-".to_owned() } else { since(instance.last_activity) };
    vec![
        instance.owner.to_string(),
        instance.id.to_string(),
        format!("{cpu_percent:.1}"),
        format!("{:.1} MiB", instance.memory_bytes as f64 / f64::from(1 << 20)),
        format!("{} MiB", instance.memory_mib),
        instance.pids.to_string(),
        instance.commands.to_string(),
        idle,
        since(instance.started_at),
    ]
}

#[cfg(test)]
mod tests;
