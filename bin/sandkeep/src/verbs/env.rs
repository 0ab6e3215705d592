//! `sandkeep env`: variables of a sandbox.

use crate::cli::Global;
use crate::{connect, output, verbs};
use types::{EnvRequest, SandboxId};

/// Show, set and remove variables of a sandbox
///
/// Commands and code that begin from then on have them. Without any to set or to remove they are
/// shown, with their values, one a line with a tab between name and value.
#[derive(clap::Args)]
pub struct Args {
    /// The sandbox.
    #[arg(value_name = "NAME")]
    id: SandboxId,
    /// Set this variable.
    #[arg(value_name = "KEY=VALUE", value_parser = verbs::assignment)]
    set: Vec<(String, String)>,
    /// Remove this variable; repeatable.
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
}

impl Args {
    /// Does it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let id = self.id.as_str();
        if self.set.is_empty() && self.unset.is_empty() {
            let all = connect::read(global, async |c| c.info(id).await).await?.env_vars;
            if global.json {
                output::json(&all)?;
            } else {
                let rows = all.into_iter().map(|(key, value)| vec![key, value]).collect();
                output::rows(&["NAME", "VALUE"], rows)?;
            }
            return Ok(0);
        }
        let set = self.set.into_iter().map(|(key, value)| (key, Some(value)));
        let env_vars = self.unset.into_iter().map(|key| (key, None)).chain(set).collect();
        connect::client(global)?.set_env(id, &EnvRequest { env_vars }).await?;
        Ok(0)
    }
}
