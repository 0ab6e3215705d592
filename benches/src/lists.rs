//! Lists: whether a page costs what it holds, however many sandboxes there are.

use crate::place::Place;
use crate::report::{Report, median};
use crate::server::Server;
use anyhow::{Context as _, ensure};
use client::{Client, InstanceQuery, ListQuery};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Options, StopRecord, Store};
use types::{Cause, InstanceFilter, ListFilter, Owner, SandboxName, Settings, Sort, TimeDefaults};

/// Owners, and how many sandboxes each has.
const OWNERS: [(&str, usize); 3] = [("few", 100), ("more", 10_000), ("most", 100_000)];
const PAGE: u32 = 100;
/// Every so many have the label.
const LABELLED: usize = 10;
/// How long reads are counted.
const COUNTED: Duration = Duration::from_secs(5);
/// Connections that read then.
const READERS: usize = 8;

/// All rows.
pub async fn measure(place: &Place, n: usize, report: &mut Report) -> anyhow::Result<()> {
    let store = Store::open(Options { dir: place.sub("lists")? })?;
    for (owner, count) in OWNERS {
        fill(&store, owner, count).await?;
    }
    store.close().await;
    drop(store);
    let server = Server::start(place, "lists").await?;
    pages(&server, n, report).await?;
    account(&server, n, report).await?;
    frozen(&server, n, report).await?;
    reads(&server, report).await
}

/// A list of one owner, by what is said of it.
fn lists() -> [(&'static str, ListFilter); 5] {
    let sorted = |sort| ListFilter { sort, ..ListFilter::default() };
    let labels = vec![("tenth".to_owned(), "yes".to_owned())];
    [
        ("oldest first", ListFilter::default()),
        ("newest first", sorted(Sort::CreatedDown)),
        ("latest activity first", sorted(Sort::ActiveDown)),
        ("by name", sorted(Sort::Name)),
        ("of a label", ListFilter { labels, ..ListFilter::default() }),
    ]
}

async fn pages(server: &Server, n: usize, report: &mut Report) -> anyhow::Result<()> {
    let clients: Vec<Client> =
        OWNERS.iter().map(|(owner, _)| server.client(Some(owner))).collect::<Result<_, _>>()?;
    for (what, filter) in lists() {
        let query = ListQuery { filter, limit: Some(PAGE), ..ListQuery::default() };
        compare(&clients, &[query.clone(), query.clone(), query], what, n, report).await?;
    }
    let mut queries = Vec::new();
    for (client, (_, count)) in clients.iter().zip(OWNERS) {
        // Behind the half of a hundred no whole page is left.
        let behind = if count > PAGE as usize { count / 2 } else { 0 };
        queries.push(middle(client, behind).await?);
    }
    compare(&clients, &queries, "oldest first, from the middle", n, report).await
}

/// The list from its middle on.
async fn middle(client: &Client, behind: usize) -> anyhow::Result<ListQuery> {
    let mut query = ListQuery::default();
    let mut left = behind;
    while left > 0 {
        let limit = u32::try_from(left.min(1000))?;
        let page = client.list(&ListQuery { limit: Some(limit), ..query }).await?;
        query = ListQuery { cursor: page.next_cursor, ..ListQuery::default() };
        left -= limit as usize;
    }
    query.limit = Some(PAGE);
    Ok(query)
}

/// A page among 100, 10 000 and 100 000, in turn.
async fn compare(
    clients: &[Client],
    queries: &[ListQuery],
    what: &str,
    n: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut times = vec![Vec::new(); clients.len()];
    for round in 0..=n {
        for ((client, query), times) in clients.iter().zip(queries).zip(&mut times) {
            let start = Instant::now();
            let page = client.list(query).await?;
            let time = start.elapsed();
            ensure!(!page.sandboxes.is_empty(), "{what}: the page is empty");
            // The first one maps what the others find mapped.
            if round > 0 {
                times.push(time);
            }
        }
    }
    let [few, more, most] = [0, 1, 2].map(|i| median(&times[i]));
    // Few have fewer of the label than a page holds: the comparison is with many that fill it.
    let (base, whose) =
        if what == "of a label" { (more, "among 10 000") } else { (few, "among 100") };
    if whose != "among 10 000" {
        report.ratio(&format!("a page, {what}, among 10 000"), more, (whose, base), 1.5);
    }
    report.ratio(&format!("a page, {what}, among 100 000"), most, (whose, base), 1.5);
    Ok(())
}

/// The account's list holds all of them; a prefix parts it into the three.
async fn account(server: &Server, n: usize, report: &mut Report) -> anyhow::Result<()> {
    let client = server.client(None)?;
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..n {
        for ((owner, _), times) in OWNERS.iter().zip(&mut times) {
            let filter = InstanceFilter { prefix: format!("{owner}/"), active: None };
            let query = InstanceQuery { filter, per_page: Some(PAGE), page_token: None };
            let start = Instant::now();
            let (page, _) = client.instances("bench", "bench", &query).await?;
            times.push(start.elapsed());
            ensure!(page.len() == PAGE as usize, "{} instances on a page", page.len());
        }
    }
    let [few, more, most] = [0, 1, 2].map(|i| median(&times[i]));
    report.ratio("a page of the account's list, among 10 000", more, ("among 100", few), 1.5);
    report.ratio("a page of the account's list, among 100 000", most, ("among 100", few), 1.5);
    Ok(())
}

/// A list that asked its instances would wait for one that stands still.
async fn frozen(server: &Server, n: usize, report: &mut Report) -> anyhow::Result<()> {
    let client = server.client(Some("cold"))?;
    let info = client.start("frozen").await?;
    let name = SandboxName::new(info.owner, info.id);
    let path = server.data.join("run").join(name.object_id().to_string()).join("instance");
    let told: serde_json::Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let pid = |field: &str| {
        let pid = told[field].as_i64().and_then(|pid| i32::try_from(pid).ok());
        pid.and_then(Pid::from_raw).with_context(|| format!("the instance has no {field}"))
    };
    let pids = [pid("supervisor_pid")?, pid("pid")?];
    let before = list(&client, n).await?;
    for pid in pids {
        kill_process(pid, Signal::STOP)?;
    }
    let during = list(&client, n).await;
    for pid in pids {
        kill_process(pid, Signal::CONT)?;
    }
    report.ratio("a list with a frozen instance in it", during?, ("before", before), 1.5);
    client.destroy("frozen").await?;
    Ok(())
}

/// The middle time of some lists, ms.
async fn list(client: &Client, n: usize) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..n.max(20) {
        let start = Instant::now();
        let page = client.list(&ListQuery::default()).await?;
        times.push(start.elapsed());
        ensure!(page.sandboxes.len() == 1 && page.sandboxes[0].running, "it does not run");
    }
    Ok(median(&times))
}

/// Reads in a second while the server has one core.
async fn reads(server: &Server, report: &mut Report) -> anyhow::Result<()> {
    server.confine(0)?;
    let query = ListQuery { limit: Some(PAGE), ..ListQuery::default() };
    for (what, pages) in [("records", false), ("pages of 100", true)] {
        let mut tasks = tokio::task::JoinSet::new();
        let start = Instant::now();
        for reader in 0..READERS {
            let (client, query) = (server.client(Some("most"))?, query.clone());
            tasks.spawn(async move {
                let mut count = 0_u64;
                while start.elapsed() < COUNTED {
                    if pages {
                        client.list(&query).await?;
                    } else {
                        client.record(&format!("s{reader}")).await?;
                    }
                    count += 1;
                }
                anyhow::Ok(count)
            });
        }
        let mut count = 0;
        while let Some(done) = tasks.join_next().await {
            count += done??;
        }
        let rate = count as f64 / start.elapsed().as_secs_f64();
        let found = format!("{rate:.0} /s");
        let what = format!("{what} read by {READERS} at once, the server on one core");
        report.push(&what, found, "≥ 1000 /s".to_owned(), Some(rate >= 1000.0));
    }
    Ok(())
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
            let mut labels = BTreeMap::new();
            if i % LABELLED == 0 {
                labels.insert("tenth".to_owned(), "yes".to_owned());
            }
            let none = BTreeMap::new();
            store.create_labelled(&name, &settings, &none, &labels, now, None).await?;
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

impl Server {
    /// Keeps all threads of the server on one core. Threads that come later inherit it.
    fn confine(&self, core: usize) -> anyhow::Result<()> {
        let mut cores = CpuSet::new();
        cores.set(core);
        for entry in std::fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let id = entry?.file_name().to_str().and_then(|id| id.parse().ok());
            let id = id.and_then(Pid::from_raw).context("a thread has no number")?;
            sched_setaffinity(Some(id), &cores)?;
        }
        Ok(())
    }
}
