//! `sandkeep stop`: the end of an instance, not of the sandbox.

use crate::cli::Global;
use crate::{connect, verbs};
use types::{SandboxId, StopRequest};

/// Stop the instances of sandboxes; the sandboxes and their workspaces stay
#[derive(clap::Args)]
pub struct Args {
    /// The sandboxes.
    #[arg(value_name = "NAME", required = true)]
    ids: Vec<SandboxId>,
    /// The reason to record [default: stopped].
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// SIGTERM to the main process first, and SIGKILL only after this long.
    #[arg(long, value_name = "DURATION", value_parser = verbs::duration, default_value = "0")]
    grace: u64,
}

impl Args {
    /// Stops them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let client = connect::client(global)?;
        let request = StopRequest { reason: self.reason, grace_ms: self.grace };
        let stop = async |id: &SandboxId| Ok(client.stop(id.as_str(), &request).await?);
        Ok(verbs::each(&self.ids, stop).await)
    }
}
