//! The log, on standard error. Standard output has the stops alone.

use super::otel::{TARGET, Traces};
use crate::config::LogFormat;
use std::io::IsTerminal as _;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// What is logged unless somebody chooses: of requests those that failed through us alone.
const USUAL: &str = "info,request=warn";

/// Begins to log. `SANDKEEP_LOG` chooses what: `debug`, `warn,store=debug`; with `info` there is a
/// line for each request.
pub fn begin(format: LogFormat, traces: Option<&Traces>) -> anyhow::Result<()> {
    let chosen = std::env::var("SANDKEEP_LOG").ok().filter(|v| !v.is_empty());
    let filter = EnvFilter::try_new(chosen.as_deref().unwrap_or(USUAL))
        .map_err(|e| anyhow::anyhow!("SANDKEEP_LOG: {e}"))?
        .add_directive(format!("{TARGET}=off").parse()?);
    match traces {
        // One filter for all is cheaper than one for each.
        None => tracing_subscriber::registry().with(filter).with(lines(format)).init(),
        Some(traces) => {
            let log = lines(format).with_filter(filter);
            tracing_subscriber::registry().with(log).with(traces.layer()).init();
        }
    }
    Ok(())
}

/// What writes the lines.
fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let quiet = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // It would say so on standard error, and panic where that is closed.
        .log_internal_errors(false)
        .with_ansi(!quiet && std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    }
}
