//! `sandkeep stops`: why and when a sandbox stopped.

use crate::cli::Global;
use crate::{connect, output};
use types::{SandboxId, Stop};

/// Show the stops of a sandbox, newest first
///
/// Those of the last 30 days, also after the sandbox was removed. Columns: generation, started,
/// stopped, reason, exit code, cause.
#[derive(clap::Args)]
pub struct Args {
    /// The sandbox.
    #[arg(value_name = "NAME")]
    id: SandboxId,
}

impl Args {
    /// Shows them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let stops = connect::read(global, async |c| c.stops(self.id.as_str()).await).await?;
        if global.json {
            output::json(&stops)?;
        } else {
            let header = ["START", "STARTED AT", "STOPPED AT", "REASON", "EXIT CODE", "CAUSE"];
            output::rows(&header, stops.iter().map(row).collect())?;
        }
        Ok(0)
    }
}

fn row(stop: &Stop) -> Vec<String> {
    vec![
        stop.generation.to_string(),
        output::time(stop.started_at),
        output::time(stop.stopped_at),
        stop.reason.clone(),
        output::number(stop.exit_code),
        stop.cause.as_str().to_owned(),
    ]
}
