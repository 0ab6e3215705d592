//! `sandkeep touch`: activity without a command.

use crate::cli::Global;
use crate::{connect, verbs};
use types::SandboxId;

/// Count sandboxes as active now
#[derive(clap::Args)]
pub struct Args {
    /// The sandboxes.
    #[arg(value_name = "NAME", required = true)]
    ids: Vec<SandboxId>,
}

impl Args {
    /// Touches them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let client = connect::client(global)?;
        let touch = async |id: &SandboxId| Ok(client.touch(id.as_str()).await?);
        Ok(verbs::each(&self.ids, touch).await)
    }
}
