//! `sandkeep inspect`: all that is known of a sandbox.

use crate::cli::Global;
use crate::{connect, output};
use types::{SandboxId, SandboxInfo, State, format_ms};

/// Show all that is known of a sandbox
#[derive(clap::Args)]
pub struct Args {
    /// The sandbox.
    #[arg(value_name = "NAME")]
    id: SandboxId,
}

impl Args {
    /// Shows it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let info = connect::read(global, async |c| c.info(self.id.as_str()).await).await?;
        if global.json {
            output::json(&info)?
        } else {
            output::pairs(&told(&info))?
        }
        Ok(0)
    }
}

/// A state in words.
pub fn state(state: Option<State>) -> &'static str {
    match state {
        Some(State::Running) => "running",
        Some(State::Stopped) => "stopped",
        None => "never started",
    }
}

fn told(info: &SandboxInfo) -> Vec<(&'static str, String)> {
    let (settings, time, limits) = (&info.settings, &info.settings.time, &info.settings.limits);
    let held = |field: &str, value: String| match info.not_enforced.iter().any(|f| f == field) {
        true => format!("{value} (not enforced here; see sandkeep doctor)"),
        false => value,
    };
    let never = |ms| if ms == 0 { "never".to_owned() } else { format_ms(ms) };
    let mut told = vec![
        ("name", info.id.to_string()),
        ("owner", info.owner.to_string()),
        ("state", state(info.record.as_ref().map(|r| r.state)).to_owned()),
    ];
    if let Some(record) = &info.record {
        if record.state == State::Stopped {
            told.push(("reason", record.reason.clone().unwrap_or_default()));
            told.push(("cause", record.cause.map_or("-", |c| c.as_str()).to_owned()));
            told.push(("exit code", output::number(record.exit_code.flatten())));
            told.push(("stopped at", output::time(record.stopped_at)));
        }
        told.push(("started at", output::time(record.started_at)));
        told.push(("starts", record.starts.to_string()));
    }
    told.extend([
        ("created at", info.created_at.clone()),
        ("last used", info.last_used.clone()),
        ("expires at", output::time(info.expires_at)),
        ("image", settings.image.clone()),
        ("entrypoint", settings.entrypoint.as_ref().map_or("-".to_owned(), |a| format!("{a:?}"))),
        ("internet", if settings.enable_internet { "yes" } else { "no" }.to_owned()),
        ("idle limit", never(time.idle_limit_ms)),
        ("check interval", format_ms(time.check_interval_ms)),
        ("inactivity time-out", format_ms(time.inactivity_timeout_ms)),
        ("idle ttl", never(time.idle_ttl_ms)),
        ("memory", held("memoryMib", format!("{} MiB", limits.memory_mib))),
        ("vcpu", held("vcpu", limits.vcpu.to_string())),
        ("pids", held("pids", limits.pids.to_string())),
        ("disk", held("diskMb", format!("{} MB", limits.disk_mb))),
    ]);
    let (files, bytes) = (info.workspace.files, info.workspace.bytes);
    told.push(("workspace", format!("{files} files, {bytes} bytes")));
    let contexts: Vec<_> =
        info.contexts.iter().map(|c| format!("{} {}", c.binding, c.id)).collect();
    told.push(("contexts", if contexts.is_empty() { "-".to_owned() } else { contexts.join(", ") }));
    let labels: Vec<_> =
        info.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    told.push(("labels", if labels.is_empty() { "-".to_owned() } else { labels.join(", ") }));
    let before = settings.before_stop.as_ref().map(|before| {
        let argv = before.argv.as_ref().map_or("-".to_owned(), |argv| format!("{argv:?}"));
        format!("{argv}, at most {}", format_ms(before.timeout_ms))
    });
    told.push(("before stop", before.unwrap_or_else(|| "-".to_owned())));
    let main: Vec<_> = settings.env.keys().map(String::as_str).collect();
    told.push(("main variables", if main.is_empty() { "-".to_owned() } else { main.join(" ") }));
    // Values may be secrets; `--json` shows them to those who ask.
    let names: Vec<_> = info.env_vars.keys().map(String::as_str).collect();
    told.push(("variables", if names.is_empty() { "-".to_owned() } else { names.join(" ") }));
    told
}
