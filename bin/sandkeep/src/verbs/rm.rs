//! `sandkeep rm`: the end of a sandbox.

use crate::cli::Global;
use crate::{connect, verbs};
use types::SandboxId;

/// Destroy sandboxes with their workspaces; for good
///
/// One that is not there is fine.
#[derive(clap::Args)]
pub struct Args {
    /// The sandboxes.
    #[arg(value_name = "NAME", required = true)]
    ids: Vec<SandboxId>,
}

impl Args {
    /// Destroys them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let client = connect::client(global)?;
        let destroy = async |id: &SandboxId| Ok(client.destroy(id.as_str()).await?);
        Ok(verbs::each(&self.ids, destroy).await)
    }
}
