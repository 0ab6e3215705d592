//! Measures what `docs/benchmarks.md` promises, all in one run on one machine, so that the
//! ratios mean something. Run by `cargo xtask bench`.
//!
//! Reading order: `report` (rows and verdicts), `place` (root file system and directories),
//! `ours`, `rivals` (runc, bubblewrap, the bare calls), `engine` (the rows of both), `server` (a
//! daemon to ask), `http`, `crowd` (many sandboxes), `durable` (the store), `contexts` (code),
//! `lists`, `authentication`, `foreign` (names of others), `follow` (events).

mod authentication;
mod contexts;
mod crowd;
mod durable;
mod engine;
mod follow;
mod foreign;
mod http;
mod lists;
mod ours;
mod place;
mod report;
mod rivals;
mod server;

use anyhow::Context as _;
use clap::Parser;
use place::Place;
use report::Report;
use std::path::PathBuf;

#[derive(Parser)]
struct Args {
    /// What to measure.
    #[arg(value_parser = ["engine", "contexts", "lists"])]
    what: String,
    /// The program, built for release.
    #[arg(long)]
    binary: PathBuf,
    /// The example `floor` of the spawner, built for release.
    #[arg(long)]
    floor: PathBuf,
    /// The engines of code contexts.
    #[arg(long)]
    engine_cache: Option<PathBuf>,
    /// Where ipykernel and pyodide are installed.
    #[arg(long)]
    peers: Option<PathBuf>,
    /// The scripts that drive them.
    #[arg(long)]
    scripts: Option<PathBuf>,
    /// Where to write the report.
    #[arg(long)]
    report: Option<PathBuf>,
    /// Fewer rounds.
    #[arg(long)]
    quick: bool,
}

fn main() -> anyhow::Result<()> {
    // This program is its own helper.
    spawner::run_if_asked();
    let args = Args::parse();
    // Others on the machine should cost as little as can be; what is measured, ours and theirs,
    // inherits this.
    if let Err(error) = rustix::process::setpriority_process(None, -20) {
        eprintln!("the priority cannot be raised ({error}): other work will be seen in the times");
    }
    let rounds = if args.quick { 10 } else { 60 };
    let mut runtime = match args.what.as_str() {
        // One request at a time, by a client with one thread, as the command line and the peers are.
        "contexts" => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.enable_all().build()?;
    let report = runtime.block_on(measure(&args, rounds))?;
    println!("\n{}", report.markdown());
    if let Some(path) = &args.report {
        std::fs::write(path, report.markdown())?;
    }
    println!("{}", report.verdict());
    Ok(())
}

async fn measure(args: &Args, rounds: usize) -> anyhow::Result<Report> {
    let place = Place::new(&args.binary, &args.floor)?;
    if args.what == "contexts" {
        let mut report = Report::new("contexts", rounds);
        let peers = args.peers.as_ref().context("--peers is missing")?;
        let peer = contexts::Peer {
            python: peers.join("venv/bin/python"),
            pyodide: peers.join("node_modules/pyodide/pyodide.mjs"),
            scripts: args.scripts.clone().context("--scripts is missing")?,
        };
        let cache = args.engine_cache.as_ref().context("--engine-cache is missing")?;
        contexts::measure(&place, &peer, cache, rounds, &mut report).await?;
        return Ok(report);
    }
    if args.what == "lists" {
        let mut report = Report::new("lists", rounds);
        lists::measure(&place, rounds, &mut report).await?;
        authentication::measure(&place, &mut report).await?;
        foreign::measure(&place, &mut report).await?;
        follow::measure(&place, &mut report).await?;
        return Ok(report);
    }
    let mut report = Report::new("engine", rounds);
    let rivals = engine::measure(&place, rounds, &mut report).await?;
    http::measure(&place, rounds, &rivals, &mut report).await?;
    crowd::measure(&place, rounds, &mut report).await?;
    durable::measure(&place, &mut report).await?;
    Ok(report)
}
