//! Measurements. The code that measures is the package `benches`: it needs the crates that it
//! measures, which no other task should have to build.

use crate::{setup, sh};

/// What is measured.
#[derive(clap::Args)]
pub struct Args {
    /// `engine`: instances, commands, HTTP, the store, memory; beside runc, bubblewrap and the
    /// bare system calls.
    #[arg(value_parser = ["engine"])]
    what: String,
    /// Fewer rounds, and docs/benchmarks.md is left as it is.
    #[arg(long)]
    quick: bool,
}

/// Installs what is measured against, builds, measures.
pub fn run(args: Args) -> anyhow::Result<()> {
    setup::run(setup::Wanted { bench: true, ..Default::default() })?;
    let binary = sh::sandkeep(true)?;
    let floor = ["build", "--quiet", "--release", "--package", "spawner", "--example", "floor"];
    sh::run(sh::cargo().args(floor))?;
    let floor = sh::target_dir()?.join("release/examples/floor");
    let mut bench = sh::cargo();
    bench.args(["run", "--quiet", "--release", "--package", "benches", "--", &args.what]);
    bench.arg("--binary").arg(binary).arg("--floor").arg(floor);
    if args.quick {
        bench.arg("--quick");
    } else {
        bench.arg("--report").arg(sh::root().join("docs/benchmarks.md"));
    }
    sh::run(&mut bench)
}
