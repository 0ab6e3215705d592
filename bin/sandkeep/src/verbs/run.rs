//! `sandkeep run`: a sandbox with settings, and a command in it.

use crate::cli::Global;
use crate::connect;
use crate::verbs::exec::CommandArgs;
use crate::verbs::settings::SettingsArgs;
use types::SandboxId;

/// Make a sandbox with these settings and run a command in it
///
/// A sandbox that exists must have the same settings.
#[derive(clap::Args)]
pub struct Args {
    /// The sandbox.
    #[arg(value_name = "NAME")]
    id: SandboxId,
    #[command(flatten)]
    command: CommandArgs,
    #[command(flatten)]
    settings: SettingsArgs,
}

impl Args {
    /// Runs it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let client = connect::client(global)?;
        if let Some(settings) = self.settings.request() {
            client.put(self.id.as_str(), &settings).await?;
        }
        self.command.run(&client, &self.id, global.json).await
    }
}
