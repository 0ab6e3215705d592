//! `sandkeep start`: an instance of a sandbox.

use crate::cli::Global;
use crate::{connect, output};
use types::SandboxId;

/// Start an instance of a sandbox where none runs
#[derive(clap::Args)]
pub struct Args {
    /// The sandbox; made where there is none.
    #[arg(value_name = "NAME")]
    id: SandboxId,
}

impl Args {
    /// Starts it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let info = connect::client(global)?.start(self.id.as_str()).await?;
        if global.json {
            output::json(&info)?;
        }
        Ok(0)
    }
}
