//! Measures what `docs/benchmarks.md` promises, all in one run on one machine, so that the
//! ratios mean something. Run by `cargo xtask bench engine`.
//!
//! Reading order: `report` (rows and verdicts), `place` (root file system and directories),
//! `ours`, `rivals` (runc, bubblewrap, the bare calls), `engine` (the rows of both), `server` (a
//! daemon to ask), `http`, `crowd` (many sandboxes), `durable` (the store).

mod crowd;
mod durable;
mod engine;
mod http;
mod ours;
mod place;
mod report;
mod rivals;
mod server;

use clap::Parser;
use place::Place;
use report::Report;
use std::path::PathBuf;

#[derive(Parser)]
struct Args {
    /// What to measure.
    #[arg(value_parser = ["engine"])]
    what: String,
    /// The program, built for release.
    #[arg(long)]
    binary: PathBuf,
    /// The example `floor` of the spawner, built for release.
    #[arg(long)]
    floor: PathBuf,
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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
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
    let mut report = Report::new(rounds);
    let rivals = engine::measure(&place, rounds, &mut report).await?;
    http::measure(&place, rounds, &rivals, &mut report).await?;
    crowd::measure(&place, rounds, &mut report).await?;
    durable::measure(&place, &mut report).await?;
    Ok(report)
}
