//! Many contexts: what they take in memory, and how fast they are listed.

use super::peers::Peers;
use super::{context, execute};
use crate::place::Place;
use crate::report::{Report, median};
use crate::server::{Server, kib};
use client::Client;
use std::path::Path;
use std::time::{Duration, Instant};

/// Contexts of one sandbox.
const EACH: usize = 8;
/// Sandboxes whose contexts all live.
const LIVE: usize = 125;
/// Sandboxes with stored contexts: 10 000 contexts in all.
const STORED: usize = 1250;

/// Rows of many contexts.
pub async fn measure(
    place: &Place,
    cache: &Path,
    n: usize,
    peers: &Peers,
    report: &mut Report,
) -> anyhow::Result<()> {
    let server = Server::start_with(place, "context-crowd", cache).await?;
    live(&server, peers, report).await?;
    drop(server);
    let server = Server::start_with(place, "context-lists", cache).await?;
    lists(&server.client(None)?, n, report).await
}

/// Memory that no other process shares, of a server and all below it, MiB.
fn private(server: &Server) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for pid in server.family()? {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else {
            continue;
        };
        sum += kib(&text, "Private_Dirty:")? + kib(&text, "Private_Clean:")?;
        sum += kib(&text, "Pss_Anon:")? - kib(&text, "Anonymous:")?.min(kib(&text, "Pss_Anon:")?);
    }
    Ok(sum / 1024.0)
}

async fn live(server: &Server, peers: &Peers, report: &mut Report) -> anyhow::Result<()> {
    let client = server.client(None)?;
    let before = private(server)?;
    for i in 0..LIVE {
        let name = format!("live-{i}");
        for _ in 0..EACH {
            let made = context(&client, &name, "PYTHON").await?;
            execute(&client, &name, &made.id, "x = 1").await?;
        }
    }
    let took = private(server)? - before;
    let workers = server.family()?.len();
    let contexts = LIVE * EACH;
    let what = format!("{contexts} live Python contexts, private memory of {workers} processes");
    report.at_most(&what, took, "MiB", 1536.0);
    let each =
        format!("{:.2} MiB; one ipykernel {:.0} MiB", took / contexts as f64, peers.kernel.memory);
    report.tell("one of them", each);
    Ok(())
}

async fn lists(client: &Client, n: usize, report: &mut Report) -> anyhow::Result<()> {
    let mut found = Vec::new();
    let mut made = 0;
    for upto in [100 / EACH, STORED] {
        while made < upto {
            for _ in 0..EACH {
                context(client, &format!("many-{made}"), "JAVASCRIPT").await?;
            }
            made += 1;
        }
        // What was just written may still be on its way to the disk.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut times = Vec::new();
        for i in 0..n * 10 {
            let name = format!("many-{}", i % (100 / EACH));
            let begun = Instant::now();
            let list = client.contexts(&name).await?;
            times.push(begun.elapsed());
            anyhow::ensure!(list.len() == EACH, "{name} has {} contexts", list.len());
        }
        found.push(median(&times));
    }
    let what = format!("listing the contexts of a sandbox among {}", STORED * EACH);
    report.ratio(&what, found[1], ("among 100", found[0]), 1.5);
    Ok(())
}
