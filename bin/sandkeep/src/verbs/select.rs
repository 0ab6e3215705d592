//! Which sandboxes a verb acts on: those that are named, or those of a list.

use crate::cli::Global;
use crate::output::{self, plain};
use crate::{fail, verbs};
use client::{Client, Error};
use futures::StreamExt as _;
use serde::Serialize;
use types::{ErrorCode, ListFilter, SandboxId, State};

/// How many are acted on at once.
const AT_ONCE: usize = 16;

/// Which sandboxes.
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
pub struct Selection {
    /// The sandboxes.
    #[arg(value_name = "NAME", conflicts_with_all = ["label", "prefix", "all"])]
    ids: Vec<SandboxId>,
    /// Those with this label; repeatable, and then all must be there.
    #[arg(long, value_name = "NAME=VALUE", value_parser = verbs::assignment)]
    label: Vec<(String, String)>,
    /// Those whose name begins with this.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    prefix: Option<String>,
    /// All of the owner.
    #[arg(long, conflicts_with_all = ["label", "prefix"])]
    pub all: bool,
}

/// What became of one sandbox.
#[derive(Serialize)]
struct Outcome {
    id: SandboxId,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Selection {
    /// Whether they are named one by one.
    pub fn is_named(&self) -> bool {
        !self.ids.is_empty()
    }

    /// The names. `state`: of those that are not named, only the ones in this state.
    pub async fn names(
        &self,
        client: &Client,
        state: Option<State>,
    ) -> anyhow::Result<Vec<SandboxId>> {
        if self.is_named() {
            return Ok(self.ids.clone());
        }
        let (prefix, labels) = (self.prefix.clone(), self.label.clone());
        let filter = ListFilter { prefix, labels, state, ..ListFilter::default() };
        Ok(client.list_all(filter).await?.into_iter().map(|s| s.id).collect())
    }

    /// Does the same for each. A failure is told at once and does not keep the others from their
    /// turn; the exit code is that of the first one. Of those that are not named each outcome is
    /// told, `done` where it worked.
    pub async fn act(
        &self,
        global: &Global,
        names: Vec<SandboxId>,
        done: &'static str,
        act: impl AsyncFn(&SandboxId) -> client::Result<()>,
    ) -> anyhow::Result<u8> {
        let (named, many) = (self.is_named(), names.len() > 1);
        let (mut code, mut outcomes) = (0, Vec::new());
        let act = &act;
        let acts = names.into_iter().map(|id| async move { (act(&id).await, id) });
        let mut acts = futures::stream::iter(acts).buffered(AT_ONCE);
        while let Some((result, id)) = acts.next().await {
            let outcome = match result {
                Ok(()) => Outcome { id, outcome: done, error: None },
                // Somebody else was quicker.
                Err(Error::Api(e)) if !named && e.code == ErrorCode::SandboxNotFound => {
                    Outcome { id, outcome: "gone", error: None }
                }
                Err(error) => {
                    let text = plain(&error.to_string());
                    let error = anyhow::Error::new(error);
                    let error = if many || !named { error.context(id.to_string()) } else { error };
                    let this = fail::report(&error);
                    code = if code == 0 { this } else { code };
                    Outcome { id, outcome: "failed", error: Some(text) }
                }
            };
            if global.json {
                outcomes.push(outcome);
            } else if !named {
                let error = outcome.error.map(|e| format!("\t{e}")).unwrap_or_default();
                output::bytes(format!("{}\t{}{error}\n", outcome.id, outcome.outcome).as_bytes())?;
            }
        }
        if global.json {
            output::json(&outcomes)?;
        }
        Ok(code)
    }
}
