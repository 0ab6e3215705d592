//! `sandkeep ls`: the sandboxes of an owner, all of them.

use crate::cli::Global;
use crate::verbs::watch::Watch;
use crate::{connect, output, verbs};
use client::ListQuery;
use types::{ListFilter, SandboxSummary, Sort, State};

/// List the sandboxes of an owner, oldest first
///
/// On a terminal a table; else one line each with tabs between: name, state, image, last
/// activity, reason of the last stop; with --all-owners the owner before them. --json tells of
/// labels too. Starts, wakes and prolongs nothing.
#[derive(clap::Args)]
pub struct Args {
    /// Only names that begin with this.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Only those in this state.
    #[arg(long)]
    state: Option<StateArg>,
    /// Only those with this label; repeatable, and then all must be there.
    #[arg(long, value_name = "NAME=VALUE", value_parser = verbs::assignment)]
    label: Vec<(String, String)>,
    /// The order: created, active or name; with a hyphen before it the other way round.
    #[arg(long, value_name = "ORDER", value_parser = sort, allow_hyphen_values = true)]
    sort: Option<Sort>,
    /// Those of all owners, as an administrator.
    #[arg(long)]
    all_owners: bool,
    /// Go on with what changes, a line each, until it is interrupted or the server ends; what leaves
    /// the list is told as `gone`. With --json one object a line.
    #[arg(long)]
    watch: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum StateArg {
    Running,
    Stopped,
}

fn sort(text: &str) -> Result<Sort, types::Error> {
    text.parse()
}

impl Args {
    /// Lists them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let (all_owners, watch) = (self.all_owners, self.watch);
        let query = ListQuery { filter: self.filter(), all_owners, ..ListQuery::default() };
        if watch {
            return Watch::new(&connect::client(global)?, global, query).run().await;
        }
        let all = connect::read(global, async |c| c.list_all(query).await).await?;
        if global.json {
            output::json(&all)?;
        } else {
            let rows = all.iter().map(|sandbox| row(sandbox, all_owners)).collect();
            output::rows(&header(all_owners), rows)?;
        }
        Ok(0)
    }

    fn filter(self) -> ListFilter {
        ListFilter {
            prefix: self.prefix,
            state: self.state.map(|state| match state {
                StateArg::Running => State::Running,
                StateArg::Stopped => State::Stopped,
            }),
            labels: self.label,
            sort: self.sort.unwrap_or_default(),
            ..ListFilter::default()
        }
    }
}

/// The columns; with their owners where those of all are listed.
pub fn header(owners: bool) -> Vec<&'static str> {
    let all = ["OWNER", "NAME", "STATE", "IMAGE", "LAST ACTIVITY", "REASON"];
    all[usize::from(!owners)..].to_vec()
}

/// The row of a sandbox.
pub fn row(sandbox: &SandboxSummary, owners: bool) -> Vec<String> {
    let cells = [
        sandbox.owner.to_string(),
        sandbox.id.to_string(),
        super::inspect::state(sandbox.state).to_owned(),
        sandbox.image.clone(),
        output::time(sandbox.last_activity),
        sandbox.reason.clone().unwrap_or_else(|| "-".to_owned()),
    ];
    cells[usize::from(!owners)..].to_vec()
}
