//! `sandkeep label`: labels of a sandbox.

use crate::cli::Global;
use crate::{connect, output};
use std::collections::BTreeMap;
use types::{Patch, SandboxId};

/// Show, set and remove labels of a sandbox
///
/// Without any to set or to remove they are shown, one a line with a tab between name and value.
#[derive(clap::Args)]
pub struct Args {
    /// The sandbox.
    #[arg(value_name = "NAME")]
    id: SandboxId,
    /// Set this label, or with a hyphen at its end remove it.
    #[arg(value_name = "KEY=VALUE|KEY-", value_parser = change)]
    changes: Vec<(String, Option<String>)>,
}

fn change(text: &str) -> Result<(String, Option<String>), String> {
    if let Some((name, value)) = text.split_once('=') {
        return Ok((name.to_owned(), Some(value.to_owned())));
    }
    let name = text.strip_suffix('-').ok_or("it must be KEY=VALUE, or KEY- to remove one")?;
    Ok((name.to_owned(), None))
}

impl Args {
    /// Does it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let id = self.id.as_str();
        if self.changes.is_empty() {
            let labels = connect::read(global, async |c| c.info(id).await).await?.labels;
            show(global, labels)?;
        } else {
            let labels = Some(self.changes.into_iter().collect());
            let info =
                connect::client(global)?.patch(id, &Patch { labels, ..Patch::default() }).await?;
            if global.json {
                output::json(&info.labels)?;
            }
        }
        Ok(0)
    }
}

fn show(global: &Global, labels: BTreeMap<String, String>) -> anyhow::Result<()> {
    if global.json {
        return output::json(&labels);
    }
    let rows = labels.into_iter().map(|(name, value)| vec![name, value]).collect();
    output::rows(&["LABEL", "VALUE"], rows)
}
