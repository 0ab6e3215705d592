//! `sandkeep webhooks`: how they do, and sending again.

use crate::cli::Global;
use crate::fail::Failure;
use crate::{connect, output};
use types::{RedeliverRequest, WebhookInfo};

/// See how the webhooks of a server do, and send events again; for administrators
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// List them: name, events delivered, behind and given up, failed tries, last error
    Ls,
    /// Send events again
    Redeliver(Redeliver),
}

#[derive(clap::Args)]
struct Redeliver {
    /// The webhook, as `sandkeep webhooks ls` names it.
    #[arg(value_name = "NAME")]
    name: String,
    /// This one event, now.
    #[arg(long, value_name = "ID", required_unless_present = "after", conflicts_with = "after")]
    event: Option<i64>,
    /// All events behind this one, in their order.
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
}

impl Args {
    /// Does it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let client = connect::client(global)?;
        match self.what {
            What::Ls => {
                let all = client.webhooks().await?;
                if global.json {
                    output::json(&all)?;
                } else {
                    let header =
                        ["NAME", "DELIVERED", "BEHIND", "GIVEN UP", "FAILED", "LAST ERROR"];
                    output::rows(&header, all.iter().map(row).collect())?;
                }
            }
            What::Redeliver(Redeliver { name, event, after }) => {
                let told = client.redeliver(&RedeliverRequest { name, event, after }).await?;
                if global.json {
                    output::json(&told)?;
                }
                if told.delivered == Some(false) {
                    let why = told.error.unwrap_or_default();
                    return Err(Failure::new(format!("the event was not delivered: {why}")).into());
                }
            }
        }
        Ok(0)
    }
}

fn row(webhook: &WebhookInfo) -> Vec<String> {
    vec![
        webhook.name.clone(),
        webhook.delivered.to_string(),
        webhook.behind.to_string(),
        webhook.given_up.to_string(),
        webhook.attempts.to_string(),
        webhook.last_error.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}
