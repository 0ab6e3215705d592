//! `sandkeep logs`: what the main processes wrote.

use crate::cli::Global;
use crate::{connect, output};
use types::SandboxId;

/// Print the last MiB that the main processes of a sandbox wrote
///
/// The bytes as they are, both streams in order; kept after a stop.
#[derive(clap::Args)]
pub struct Args {
    /// The sandbox.
    #[arg(value_name = "NAME")]
    id: SandboxId,
}

impl Args {
    /// Prints it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let logs = connect::read(global, async |c| c.logs(self.id.as_str()).await).await?;
        output::bytes(&logs)?;
        Ok(0)
    }
}
