//! `sandkeep rm`: the end of a sandbox.

use crate::cli::Global;
use crate::connect;
use crate::fail::Failure;
use crate::output::say;
use crate::verbs::select::Selection;
use std::io::{BufRead as _, IsTerminal as _};
use types::SandboxId;

/// Destroy sandboxes with their workspaces; for good
///
/// One that is not there is fine. Those that are chosen by --label, --prefix or --all are told one
/// a line: the name, a tab, and `removed`, or `failed` and why.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
    /// Do not ask whether all are meant.
    #[arg(long)]
    yes: bool,
}

impl Args {
    /// Destroys them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let client = connect::client(global)?;
        if self.which.all && !self.yes && !std::io::stdin().is_terminal() {
            let failure = Failure::new("all sandboxes with their workspaces would be destroyed");
            return Err(failure.hint("if that is meant, say --yes").into());
        }
        let names = self.which.names(&client, None).await?;
        if self.which.all && !self.yes && !names.is_empty() && !agreed(names.len())? {
            return Err(Failure::new("nothing was destroyed").into());
        }
        let destroy = async |id: &SandboxId| client.destroy(id.as_str()).await;
        self.which.act(global, names, "removed", destroy).await
    }
}

fn agreed(count: usize) -> anyhow::Result<bool> {
    say(format!("Destroy {count} sandboxes with their workspaces, for good? Type yes:"));
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim() == "yes")
}
