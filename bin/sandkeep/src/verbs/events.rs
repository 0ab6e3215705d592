//! `sandkeep events`: what happened, and what happens.

use crate::cli::Global;
use crate::output::say;
use crate::{connect, output};
use client::{EventQuery, Followed};
use types::{Event, EventType, SandboxId};

/// Show what happened to the sandboxes of an owner, oldest first
///
/// Events of the last 30 days; with --follow, those to come, or all behind --after and those to
/// come. Columns: id, time, type, sandbox, and more by type. With --json one object a line.
#[derive(clap::Args)]
pub struct Args {
    /// Only of this sandbox.
    #[arg(value_name = "NAME")]
    id: Option<SandboxId>,
    /// Go on with what comes, until it is interrupted.
    #[arg(long, short)]
    follow: bool,
    /// Only of this type, such as `sandbox.stopped`; repeatable.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<EventType>,
    /// Of all owners; --owner then names one of them. For administrators.
    #[arg(long)]
    all_owners: bool,
    /// Only those behind this id; 0: all that are kept.
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(0..))]
    after: Option<i64>,
}

impl Args {
    /// Shows them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let owner = global.owner.clone().filter(|_| self.all_owners);
        let mut query = EventQuery {
            after: self.after,
            sandbox: self.id,
            types: self.types,
            limit: None,
            all_owners: self.all_owners,
            owner,
        };
        let show = |event: &Event| show(event, global.json, query.all_owners);
        if !self.follow {
            query.limit = Some(1000);
            loop {
                let page = connect::read(global, async |c| c.events(&query).await).await?;
                page.missed.then(missed);
                page.events.iter().try_for_each(show)?;
                query.after = Some(page.next_after);
                if !page.more {
                    return Ok(0);
                }
            }
        }
        let mut stream = connect::client(global)?.follow_events(&query).await?;
        loop {
            match stream.next().await? {
                Followed::Ready(_) => {}
                Followed::Missed => missed(),
                Followed::Event(event) => show(&event)?,
            }
        }
    }
}

fn missed() {
    say("some events are not kept any more");
}

fn show(event: &Event, json: bool, owners: bool) -> anyhow::Result<()> {
    if json {
        return output::bytes(format!("{}\n", serde_json::to_string(event)?).as_bytes());
    }
    let sandbox = event.sandbox.as_ref().map_or("-", |id| id.as_str());
    let name = if owners { format!("{}/{sandbox}", event.owner) } else { sandbox.to_owned() };
    let generation = event.generation.map(|n| ("generation".to_owned(), n.into()));
    let data = generation.into_iter().chain(event.data.clone());
    let data: Vec<String> = data.map(|(key, value)| format!("{key}={value}")).collect();
    let cells = [event.id.to_string(), output::time(event.at), event.kind.clone(), name];
    let cells: Vec<String> = cells.iter().chain(&data).map(|cell| output::plain(cell)).collect();
    output::bytes(format!("{}\n", cells.join("\t")).as_bytes())
}
