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
/// a line: the name, a tab, and `removed`, or `failed` and why. On a terminal it is asked first
/// whether they are meant; elsewhere that takes --yes.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
    /// Do not ask whether those are meant that are not named.
    #[arg(long)]
    yes: bool,
}

impl Args {
    /// Destroys them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let client = connect::client(global)?;
        let asks = !self.which.is_named() && !self.yes;
        if asks && !std::io::stdin().is_terminal() {
            let text = "sandboxes that are not named would be destroyed with their workspaces";
            return Err(Failure::new(text).hint("if that is meant, say --yes").into());
        }
        let names = self.which.names(&client, None).await?;
        if asks && !names.is_empty() && !agreed(&names)? {
            return Err(Failure::new("nothing was destroyed").into());
        }
        let destroy = async |id: &SandboxId| client.destroy(id.as_str()).await;
        self.which.act(global, names, "removed", destroy).await
    }
}

/// Names that are shown before it is asked.
const SHOWN: usize = 10;

fn agreed(names: &[SandboxId]) -> anyhow::Result<bool> {
    let mut shown: Vec<&str> = names.iter().take(SHOWN).map(SandboxId::as_str).collect();
    if names.len() > SHOWN {
        shown.push("…");
    }
    let (count, shown) = (names.len(), shown.join(", "));
    say(format!("Destroy {count} sandboxes with their workspaces, for good ({shown})? Type yes:"));
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim() == "yes")
}
