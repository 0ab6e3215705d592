//! `sandkeep stop`: the end of an instance, not of the sandbox.

use crate::cli::Global;
use crate::verbs::select::Selection;
use crate::{connect, verbs};
use types::{SandboxId, State, StopRequest};

/// Stop the instances of sandboxes; the sandboxes and their workspaces stay
///
/// Of those that are chosen by --label, --prefix or --all the running ones are stopped, and told
/// one a line: the name, a tab, and `stopped`, or `failed` and why.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
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
        let names = self.which.names(&client, Some(State::Running)).await?;
        let stop = async |id: &SandboxId| client.stop(id.as_str(), &request).await;
        self.which.act(global, names, "stopped", stop).await
    }
}
