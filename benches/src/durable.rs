//! How fast the store commits.

use crate::place::Place;
use crate::report::Report;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use store::{Options, Store};
use types::{Owner, SandboxName, Settings, TimeDefaults};

const WRITERS: usize = 64;
/// Commits of each writer.
const EACH: usize = 100;

/// The row of the store.
pub async fn measure(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let store = Store::open(Options { dir: place.sub("durable")? })?;
    let alone = rate(&store, 1, EACH * 3).await?;
    let together = rate(&store, WRITERS, EACH).await?;
    let times = together / alone;
    let found = format!("{together:.0} commits/s; one writer {alone:.0}/s; {times:.1} ×");
    report.push("64 writers at once", found, "≥ 10 × one writer".to_owned(), Some(times >= 10.0));
    store.close().await;
    Ok(())
}

/// Acknowledged commits in a second.
async fn rate(store: &Store, writers: usize, each: usize) -> anyhow::Result<f64> {
    let settings = Arc::new(Settings::defaults(TimeDefaults::default()));
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..writers {
        let owner: Owner = format!("w{writers}-{writer}").parse()?;
        let (store, settings) = (store.clone(), settings.clone());
        tasks.spawn(async move {
            for i in 0..each {
                let name = SandboxName::new(owner.clone(), format!("s{i}").parse()?);
                store.create(&name, &settings, &BTreeMap::new(), 1, None).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok((writers * each) as f64 / start.elapsed().as_secs_f64())
}
