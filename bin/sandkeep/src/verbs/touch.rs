//! `sandkeep touch`: activity without a command.

use crate::cli::Global;
use crate::connect;
use crate::verbs::select::Selection;
use types::SandboxId;

/// Count sandboxes as active now
///
/// Those that are chosen by --label, --prefix or --all are told one a line: the name, a tab, and
/// `touched`, or `failed` and why.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
}

impl Args {
    /// Touches them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let client = connect::client(global)?;
        let names = self.which.names(&client, None).await?;
        let touch = async |id: &SandboxId| client.touch(id.as_str()).await;
        self.which.act(global, names, "touched", touch).await
    }
}
