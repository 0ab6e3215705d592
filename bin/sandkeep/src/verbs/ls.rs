//! `sandkeep ls`: the sandboxes of an owner, all of them.

use crate::cli::Global;
use crate::{connect, output};
use client::ListQuery;
use types::{SandboxSummary, State};

/// List the sandboxes of an owner, oldest first
///
/// On a terminal a table; else one line each with tabs between: name, state, image, last
/// activity, reason of the last stop. Starts, wakes and prolongs nothing.
#[derive(clap::Args)]
pub struct Args {
    /// Only names that begin with this.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Only those in this state.
    #[arg(long)]
    state: Option<StateArg>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum StateArg {
    Running,
    Stopped,
}

impl Args {
    /// Lists them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let state = self.state.map(|state| match state {
            StateArg::Running => State::Running,
            StateArg::Stopped => State::Stopped,
        });
        let query = ListQuery { prefix: self.prefix, state, ..ListQuery::default() };
        let all = connect::client(global)?.list_all(query).await?;
        if global.json {
            output::json(&all)?;
        } else {
            let header = ["NAME", "STATE", "IMAGE", "LAST ACTIVITY", "REASON"];
            output::rows(&header, all.iter().map(row).collect())?;
        }
        Ok(0)
    }
}

fn row(sandbox: &SandboxSummary) -> Vec<String> {
    vec![
        sandbox.id.to_string(),
        super::inspect::state(sandbox.state).to_owned(),
        sandbox.image.clone(),
        output::time(sandbox.last_activity),
        sandbox.reason.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}
