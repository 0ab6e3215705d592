//! One context: its start, small steps, what they leave on the disk, and a restart.

use super::peers::{CPU_BOUND, Peers};
use super::{STEPS, context, execute, text};
use crate::place::Place;
use crate::report::{Report, median, median_ms};
use crate::server::Server;
use anyhow::Context as _;
use client::Client;
use std::path::Path;
use std::time::{Duration, Instant};

/// Rows of one context at a time.
pub async fn measure(
    place: &Place,
    cache: &Path,
    peers: &Peers,
    n: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut server = Server::start_with(place, "contexts", cache).await?;
    let client = server.client(None)?;
    start(&client, peers, n, report).await?;
    warm(&client, peers, n, report).await?;
    disk(&client, n, report).await?;
    pandas(&client, n, report).await?;
    cpu(&client, peers, report).await?;
    cancel(&client, n, report).await?;
    restart(&mut server, n.min(10), report).await
}

async fn start(
    client: &Client,
    peers: &Peers,
    n: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let kernel = ("ipykernel", peers.kernel.start);
    for (gap, kind) in [(0, "back to back"), (100, "quiet")] {
        let (mut fresh, mut second) = (Vec::new(), Vec::new());
        for i in 0..n {
            tokio::time::sleep(Duration::from_millis(gap)).await;
            let name = format!("start-{gap}-{i}");
            for times in [&mut fresh, &mut second] {
                let begun = Instant::now();
                let made = context(client, &name, "PYTHON").await?;
                execute(client, &name, &made.id, "x = 1").await?;
                times.push(begun.elapsed());
            }
            client.destroy(&name).await?;
        }
        let what = format!("new sandbox, new Python context, first execution, {kind}");
        report.ratio(&what, median(&fresh), kernel, 0.02);
        let what = format!("a further context of it and its first execution, {kind}");
        report.ratio(&what, median(&second), kernel, 0.02);
    }
    let pyodide = format!("{:.0} ms", peers.pyodide.start);
    report.tell("pyodide in node, start and first execution", pyodide);
    Ok(())
}

async fn warm(client: &Client, peers: &Peers, n: usize, report: &mut Report) -> anyhow::Result<()> {
    let made = context(client, "warm", "PYTHON").await?;
    let mut saving = Vec::new();
    for (i, step) in STEPS.iter().enumerate() {
        let name = step.lines().next().unwrap_or_default();
        let kernel = &peers.kernel;
        let kinds = [(0, "back to back", kernel.warm[i]), (100, "quiet", kernel.quiet[i])];
        for (gap, kind, theirs) in kinds {
            execute(client, "warm", &made.id, step).await?;
            let mut times = Vec::new();
            for _ in 0..n {
                tokio::time::sleep(Duration::from_millis(gap)).await;
                let begun = Instant::now();
                let result = execute(client, "warm", &made.id, step).await?;
                times.push(begun.elapsed());
                let saved = result.context.and_then(|c| c.snapshot_ms);
                saving.push(saved.context("it was not saved")? as f64);
            }
            let what = format!("warm execution of `{name} …`, saved, over HTTP, {kind}");
            report.ratio(&what, median(&times), ("ipykernel", theirs), 0.3);
        }
        let pyodide = format!("{:.2} ms, not saved, no HTTP", peers.pyodide.warm[i]);
        report.tell(&format!("pyodide in node, `{name} …`"), pyodide);
    }
    report.at_most("saving a small Python step (snapshotMs)", median_ms(&saving), "ms", 5.0);
    Ok(())
}

async fn disk(client: &Client, n: usize, report: &mut Report) -> anyhow::Result<()> {
    let made = context(client, "disk", "PYTHON").await?;
    execute(client, "disk", &made.id, "x = 1").await?;
    let mut most = 0.0f64;
    for _ in 0..n {
        execute(client, "disk", &made.id, "x = x + 1").await?;
        let info = client.context("disk", &made.id).await?;
        let snapshot = info.snapshot.context("there is no snapshot")?;
        most = most.max(snapshot.disk_bytes as f64 / 1024.0);
    }
    report.at_most("diskBytes of a context of small steps, at most", most, "KiB", 256.0);
    Ok(())
}

async fn pandas(client: &Client, n: usize, report: &mut Report) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for i in 0..n {
        let name = format!("pandas-{i}");
        let made = context(client, &name, "PYTHON_DATA").await?;
        let timed = "import time; t = time.perf_counter(); import pandas; \
                     (time.perf_counter() - t) * 1000";
        times.push(text(&execute(client, &name, &made.id, timed).await?)?.parse::<f64>()?);
        client.destroy(&name).await?;
    }
    report.at_most("`import pandas` in a new PYTHON_DATA context", median_ms(&times), "ms", 10.0);
    Ok(())
}

async fn cpu(client: &Client, peers: &Peers, report: &mut Report) -> anyhow::Result<()> {
    let made = context(client, "cpu", "PYTHON").await?;
    execute(client, "cpu", &made.id, CPU_BOUND).await?;
    execute(client, "cpu", &made.id, "run()").await?;
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(text(&execute(client, "cpu", &made.id, "run()").await?)?.parse::<f64>()?);
    }
    let whose = format!("CPython {}", peers.version);
    report.ratio("CPU-bound Python", median_ms(&times), (&whose, peers.native), 4.0);
    Ok(())
}

/// A client goes away from a loop; the next one's answer tells that the guest has stopped, and its
/// memory is as before.
async fn cancel(client: &Client, n: usize, report: &mut Report) -> anyhow::Result<()> {
    let made = context(client, "cancel", "PYTHON").await?;
    execute(client, "cancel", &made.id, "x = 1").await?;
    let place = client::Place::Context("cancel", &made.id);
    let code = "x = 2; print('on', flush=True)\nwhile True: pass".to_owned();
    let endless = types::CodeRequest { code, ..Default::default() };
    let mut times = Vec::new();
    for _ in 0..n {
        let mut stream = client.execute_stream(place, &endless).await?;
        while !matches!(stream.next().await?, None | Some(types::CodeEvent::Stdout { .. })) {}
        let begun = Instant::now();
        drop(stream);
        let result = execute(client, "cancel", &made.id, "x").await?;
        times.push(begun.elapsed());
        anyhow::ensure!(text(&result)? == "1", "a cancelled execution was kept");
    }
    let what = "a client leaves an endless loop: until its context has answered the next one";
    report.at_most(what, median(&times), "ms", 10.0);
    Ok(())
}

/// After each restart the first answer of one context, against `/healthz` of the same server.
async fn restart(server: &mut Server, n: usize, report: &mut Report) -> anyhow::Result<()> {
    let client = server.client(None)?;
    let made = context(&client, "back", "PYTHON").await?;
    execute(&client, "back", &made.id, "x = 0").await?;
    let mut beyond = Vec::new();
    for i in 1..=n {
        server.restart().await?;
        let client = server.client(None)?;
        client.healthz().await?;
        let begun = Instant::now();
        client.healthz().await?;
        let health = begun.elapsed();
        let begun = Instant::now();
        let result = execute(&client, "back", &made.id, "x += 1; x").await?;
        beyond.push(begun.elapsed().saturating_sub(health));
        anyhow::ensure!(text(&result)? == i.to_string(), "the context lost a step");
    }
    let what = "first answer of a stored context after a restart, beyond /healthz";
    report.at_most(what, median(&beyond), "ms", 10.0);
    Ok(())
}
