//! Whether the time of an answer tells that another owner has a sandbox.

use crate::place::Place;
use crate::report::{Report, median};
use crate::server::Server;
use anyhow::{bail, ensure};
use client::Client;
use std::time::Instant;
use types::{ErrorCode, SettingsRequest, TokenRequest};

/// How often each is asked for. They alternate, and a few microseconds have to show.
const TIMES: usize = 4000;
/// How far the medians may be apart.
const RATIO: std::ops::RangeInclusive<f64> = 0.95..=1.05;

/// The rows of names that are another's.
pub async fn measure(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let server = Server::start(place, "foreign").await?;
    let admin = Client::unix(&server.data.join("admin.sock"), None, Some("bob".parse()?))?;
    admin.put("there", &SettingsRequest::default()).await?;
    let owner = Some("ada".parse()?);
    let token = admin.create_token(&TokenRequest { owner, ..TokenRequest::default() }).await?.token;
    let of = |owner: &str| server.client_with(&token, owner);
    let (ada, bob) = (of("ada")?, of("bob")?);
    // What is one's own and is not there; what is another's; and what is nobody's.
    let asked = [(&ada, "nothing"), (&bob, "there"), (&bob, "nothing")];
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..=TIMES {
        for ((client, id), times) in asked.iter().zip(&mut times) {
            let start = Instant::now();
            let answer = client.info(id).await;
            let time = start.elapsed();
            let Err(client::Error::Api(error)) = answer else { bail!("{id} was answered") };
            ensure!(error.code == ErrorCode::SandboxNotFound, "{id}: {error}");
            // The first ones open connections.
            if round > 0 {
                times.push(time);
            }
        }
    }
    let [missing, foreign, nobodys] = times.each_ref().map(|times| median(times));
    for (what, ours, (whose, other)) in [
        ("404 of another owner's sandbox", foreign, ("of a missing one", missing)),
        ("404 of another owner's sandbox", foreign, ("of one that the other has not", nobodys)),
    ] {
        let ratio = ours / other;
        let found = format!("{ours:.3} ms; {whose} {other:.3} ms; {ratio:.3} ×");
        let target = format!("{} to {} × {whose}", RATIO.start(), RATIO.end());
        report.push(&format!("{what}, {TIMES} each"), found, target, Some(RATIO.contains(&ratio)));
    }
    Ok(())
}
