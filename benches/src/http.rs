//! What a caller of the server sees.

use crate::engine::Rivals;
use crate::place::Place;
use crate::report::{Report, median};
use crate::server::{Server, kib};
use anyhow::{Context as _, ensure};
use client::Client;
use std::path::Path;
use std::time::{Duration, Instant};
use types::ExecRequest;

/// First commands that come at once.
const AT_ONCE: usize = 100;
/// Instances whose memory is measured.
const IDLE: usize = 20;

/// The rows of HTTP.
pub async fn measure(
    place: &Place,
    n: usize,
    rivals: &Rivals,
    report: &mut Report,
) -> anyhow::Result<()> {
    let server = Server::start(place, "http").await?;
    let client = server.client(None)?;
    run_true(&client, "warm").await?;

    let mut first = Vec::new();
    for i in 0..n {
        first.push(run_true(&client, &format!("fresh-{i}")).await?);
        client.destroy(&format!("fresh-{i}")).await?;
    }
    let theirs = ("runc run and exec", rivals.run_and_exec);
    report.ratio("first command on a fresh name, over HTTP", median(&first), theirs, 0.25);

    for (i, (gap, kind)) in [(0, "back to back"), (100, "quiet")].into_iter().enumerate() {
        let mut again = Vec::new();
        for _ in 0..n {
            tokio::time::sleep(Duration::from_millis(gap)).await;
            again.push(run_true(&client, "warm").await?);
        }
        let what = format!("`true` in a running sandbox, over HTTP, {kind}");
        report.ratio(&what, median(&again), ("runc exec", rivals.exec[i]), 0.15);
    }
    reading(&client, n, report).await?;
    memory(&server, &client, report).await?;
    at_once(&server, report).await
}

async fn run_true(client: &Client, name: &str) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let result = client.exec(name, &ExecRequest::new(["true"])).await?;
    let time = start.elapsed();
    ensure!(result.exit_code == 0, "`true` came out as {result:?}");
    Ok(time)
}

async fn reading(client: &Client, n: usize, report: &mut Report) -> anyhow::Result<()> {
    let (mut record, mut health) = (Vec::new(), Vec::new());
    // In turn, so that both see the same machine.
    for _ in 0..n.max(50) * 4 {
        let start = Instant::now();
        client.record("warm").await?.context("it has no record")?;
        record.push(start.elapsed());
        let start = Instant::now();
        client.healthz().await?;
        health.push(start.elapsed());
    }
    let (record, health) = (median(&record), median(&health));
    let found = format!("{record:.2} ms; /healthz {health:.2} ms");
    let holds = Some(record <= health + 0.5);
    report.push("reading a record", found, "≤ /healthz + 0.5 ms".to_owned(), holds);
    Ok(())
}

/// What an idle instance costs beside its own processes, of which it has none.
async fn memory(server: &Server, client: &Client, report: &mut Report) -> anyhow::Result<()> {
    let before = server.resident()?;
    for i in 0..IDLE {
        client.start(&format!("idle-{i}")).await?;
    }
    let daemon = (server.resident()? - before).max(0.0) / IDLE as f64;
    let object = crate::ours::object("idle-7")?;
    let instance = server.data.join("run").join(object.to_string()).join("instance");
    let instance: spawner::protocol::InstanceFile =
        serde_json::from_slice(&std::fs::read(instance)?)?;
    let share = |pid: i32| -> anyhow::Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        Ok(kib(&text, "Pss:")? / 1024.0)
    };
    let (supervisor, init) = (share(instance.supervisor_pid)?, share(instance.pid)?);
    let groups = instance.cgroups.v1.iter().chain(&instance.cgroups.v2);
    let files = groups.flat_map(|dir| {
        ["memory.usage_in_bytes", "memory.current"].map(|file| Path::new(dir).join(file))
    });
    let group: f64 = files
        .filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
        .map(|bytes: f64| bytes / 1_048_576.0)
        .sum();
    let parts = format!(
        "supervisor {supervisor:.2}, init {init:.2}, control group {group:.2}, server {daemon:.2} MiB"
    );
    report.tell("a running idle instance, by parts", parts);
    // Init is charged to the control group as well; it is not taken off.
    let whole = supervisor + init + group + daemon;
    report.at_most("a running idle instance", whole, "MiB", 2.0);
    for i in 0..IDLE {
        client.destroy(&format!("idle-{i}")).await?;
    }
    Ok(())
}

async fn at_once(server: &Server, report: &mut Report) -> anyhow::Result<()> {
    let mut tasks = Vec::new();
    for i in 0..AT_ONCE {
        let client = server.client(Some("crowd"))?;
        tasks.push(tokio::spawn(async move { run_true(&client, &format!("c{i}")).await }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.push(task.await??);
    }
    let what = format!("{AT_ONCE} first commands at once, median; all were right");
    report.at_most(&what, median(&times), "ms", 1000.0);
    Ok(())
}
