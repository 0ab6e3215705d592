//! `sandkeep ls --watch`: the list, and then what changes in it.

use super::ls::{header, row};
use crate::cli::Global;
use crate::output;
use client::{Client, EventQuery, Followed, ListQuery};
use std::collections::BTreeSet;
use types::{Event, Owner, SandboxId, SandboxSummary, Sort};

/// Follows the list until it is interrupted: after the list, one line for each change, in its
/// columns; what is no longer in it stands there once more with the state `gone`.
pub struct Watch<'a> {
    client: &'a Client,
    global: &'a Global,
    query: ListQuery,
    /// What was told of last.
    shown: BTreeSet<(Owner, SandboxId)>,
}

impl<'a> Watch<'a> {
    pub fn new(client: &'a Client, global: &'a Global, query: ListQuery) -> Self {
        Self { client, global, query, shown: BTreeSet::new() }
    }

    /// Never ends by itself. A stream that breaks off is an error; nothing is missed unseen.
    pub async fn run(mut self) -> anyhow::Result<u8> {
        let all_owners = self.query.all_owners;
        let owner = self.query.owner.clone();
        let events = EventQuery { all_owners, owner, ..EventQuery::default() };
        // First the stream, so that nothing happens between the list and it.
        let mut stream = self.client.follow_events(&events).await?;
        while !matches!(stream.next().await?, Followed::Ready(_)) {}
        self.list().await?;
        loop {
            match stream.next().await? {
                Followed::Ready(_) => {}
                Followed::Missed => self.list().await?,
                Followed::Event(event) => self.changed(&event).await?,
            }
        }
    }

    async fn list(&mut self) -> anyhow::Result<()> {
        let all = self.client.list_all(self.query.clone()).await?;
        let now = all.iter().map(|s| (s.owner.clone(), s.id.clone())).collect();
        let before = std::mem::replace(&mut self.shown, now);
        // Where events were missed, what left the list meanwhile is told as well.
        before.difference(&self.shown).try_for_each(|(owner, id)| self.tell_gone(owner, id))?;
        if self.global.json {
            return all.iter().try_for_each(line);
        }
        let all = all.iter().map(|s| row(s, self.query.all_owners)).collect();
        output::rows(&header(self.query.all_owners), all)
    }

    /// Tells what the list has of the sandbox now, which may be newer than the event.
    async fn changed(&mut self, event: &Event) -> anyhow::Result<()> {
        let Some(id) = event.sandbox.clone() else { return Ok(()) };
        let mut query = self.query.clone();
        let wanted = query.filter.prefix.as_deref().unwrap_or_default();
        if !id.as_str().starts_with(wanted) {
            return Ok(());
        }
        // Of all that begin with the id, itself comes first.
        query.filter.prefix = Some(id.to_string());
        query.filter.sort = Sort::Name;
        query.limit = Some(1);
        if query.all_owners {
            query.owner = Some(event.owner.clone());
        }
        let found = self.client.list(&query).await?.sandboxes.into_iter().find(|s| s.id == id);
        let name = (event.owner.clone(), id);
        match found {
            Some(sandbox) => {
                self.shown.insert(name);
                self.tell(&sandbox)
            }
            None if self.shown.remove(&name) => self.tell_gone(&name.0, &name.1),
            None => Ok(()),
        }
    }

    fn tell(&self, sandbox: &SandboxSummary) -> anyhow::Result<()> {
        if self.global.json {
            return line(sandbox);
        }
        output::row(&row(sandbox, self.query.all_owners))
    }

    fn tell_gone(&self, owner: &Owner, id: &SandboxId) -> anyhow::Result<()> {
        if self.global.json {
            return line(&serde_json::json!({ "owner": owner, "id": id, "gone": true }));
        }
        let mut cells = vec![id.to_string(), "gone".to_owned()];
        if self.query.all_owners {
            cells.insert(0, owner.to_string());
        }
        cells.extend(["-", "-", "-"].map(str::to_owned));
        output::row(&cells)
    }
}

fn line(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    output::bytes(&text)
}
