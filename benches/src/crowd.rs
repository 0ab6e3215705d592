//! Ten thousand sandboxes that do nothing.

use crate::place::Place;
use crate::report::{Report, median};
use crate::server::Server;
use client::{Client, ListQuery};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Options, StopRecord, Store};
use types::{Cause, Owner, SandboxName, Settings, TimeDefaults};

const MANY: usize = 10_000;
const FEW: usize = 100;
const PAGE: u32 = 100;
/// How long the server is watched doing nothing.
const WATCH: Duration = Duration::from_secs(10);

/// The rows of many sandboxes.
pub async fn measure(place: &Place, n: usize, report: &mut Report) -> anyhow::Result<()> {
    let store = Store::open(Options { dir: place.sub("crowd")? })?;
    fill(&store, "many", MANY).await?;
    fill(&store, "few", FEW).await?;
    store.close().await;
    drop(store);

    let server = Server::start(place, "crowd").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = server.ticks()?;
    tokio::time::sleep(WATCH).await;
    let used = server.ticks()? - before;
    // A tick is a hundredth of a second on every Linux that is supported.
    let percent = used as f64 / WATCH.as_secs_f64();
    report.at_most("processor time with 10 000 stopped sandboxes", percent, "%", 1.0);

    let (many, few) = (server.client(Some("many"))?, server.client(Some("few"))?);
    let (mut of_many, mut of_few) = (Vec::new(), Vec::new());
    for _ in 0..n {
        of_many.push(page(&many).await?);
        of_few.push(page(&few).await?);
    }
    let (of_many, of_few) = (median(&of_many), median(&of_few));
    let few = ("among 100", of_few);
    report.ratio("a page of 100 among 10 000 sandboxes", of_many, few, 1.5);
    let resident = server.resident()?;
    report.at_most("a server with 10 000 stopped sandboxes, resident", resident, "MiB", 150.0);
    Ok(())
}

async fn page(client: &Client) -> anyhow::Result<Duration> {
    let query = ListQuery { limit: Some(PAGE), ..ListQuery::default() };
    let start = Instant::now();
    let page = client.list(&query).await?;
    let time = start.elapsed();
    anyhow::ensure!(page.sandboxes.len() == PAGE as usize, "{} on a page", page.sandboxes.len());
    Ok(time)
}

/// Makes sandboxes that ran once.
async fn fill(store: &Store, owner: &str, count: usize) -> anyhow::Result<()> {
    let owner: Owner = owner.parse()?;
    let settings = Arc::new(Settings::defaults(TimeDefaults::default()));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let now = i64::try_from(now.as_millis())?;
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..count {
        let name = SandboxName::new(owner.clone(), format!("s{i}").parse()?);
        let (store, settings) = (store.clone(), settings.clone());
        tasks.spawn(async move {
            store.create(&name, &settings, &BTreeMap::new(), now, None).await?;
            let row = store.start(&name, &settings, now, None).await?;
            let stop = StopRecord {
                generation: row.generation,
                reason: "idle".to_owned(),
                exit_code: None,
                cause: Cause::Idle,
                stopped_at: now,
            };
            store.stop(&name.object_id(), &stop, None, None).await
        });
        while tasks.len() >= 500 {
            tasks.join_next().await.transpose()?.transpose()?;
        }
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}
