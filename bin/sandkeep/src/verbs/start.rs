//! `sandkeep start`: an instance of a sandbox.

use crate::cli::Global;
use crate::verbs::select::Selection;
use crate::{connect, output, verbs};
use types::SandboxId;

/// Start instances of sandboxes where none runs
///
/// One that is named and is not there is made. Those that are chosen by --label, --prefix or --all
/// are told one a line: the name, a tab, and `started`, or `failed` and why.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
    /// Wait so long at most, up to a minute, where a limit keeps an instance from starting.
    #[arg(long, value_name = "DURATION", value_parser = verbs::duration)]
    wait: Option<u64>,
}

impl Args {
    /// Starts them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let client = verbs::waiting(connect::client(global)?, self.wait);
        let names = self.which.names(&client, None).await?;
        if let [id] = &*names
            && self.which.is_named()
        {
            let info = client.start(id.as_str()).await?;
            if global.json {
                output::json(&info)?;
            }
            return Ok(0);
        }
        let start = async |id: &SandboxId| client.start(id.as_str()).await.map(drop);
        self.which.act(global, names, "started", start).await
    }
}
