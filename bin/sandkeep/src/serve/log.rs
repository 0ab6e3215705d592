//! The log, on standard error. Standard output has the stops alone.

use crate::config::LogFormat;
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// What is logged unless somebody chooses: of requests those that failed through us alone.
const USUAL: &str = "info,request=warn";

/// Begins to log. `SANDKEEP_LOG` chooses what: `debug`, `warn,store=debug`; with `info` there is a
/// line for each request.
pub fn begin(format: LogFormat) -> anyhow::Result<()> {
    let chosen = std::env::var("SANDKEEP_LOG").ok().filter(|v| !v.is_empty());
    let filter = EnvFilter::try_new(chosen.as_deref().unwrap_or(USUAL))
        .map_err(|e| anyhow::anyhow!("SANDKEEP_LOG: {e}"))?;
    let quiet = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would say so on standard error, and panic where that is closed.
        .log_internal_errors(false)
        .with_ansi(!quiet && std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}
