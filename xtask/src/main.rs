//! What a developer asks of this repository: `cargo xtask --help`.
//!
//! Reading order: `setup` (what the machine needs), `demo` (the main job over the real API),
//! `check`, `test`, `node` (the TypeScript client), `guest` (a machine with cgroup v2 alone),
//! `bench`; `sh` runs programs.

mod bench;
mod check;
mod demo;
mod engines;
mod guest;
mod node;
mod setup;
mod sh;
mod test;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Tasks of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what this machine lacks, with apt-get and cargo
    Setup(setup::Wanted),
    /// Build, start a server, do its main job over the real API, clean up
    Try {
        /// Use this binary and build nothing.
        #[arg(long, value_name = "PATH")]
        binary: Option<PathBuf>,
    },
    /// Run all tests, or those that a filter names
    Test(test::Args),
    /// Formatting, lints, and types of the TypeScript client
    Check,
    /// Measure, and write docs/benchmarks.md
    Bench(bench::Args),
    /// Run the main job in a virtual machine whose cgroups are v2 alone
    #[command(name = "test-cgroup2")]
    TestCgroup2 {
        /// Use this binary and build nothing.
        #[arg(long, value_name = "PATH")]
        binary: Option<PathBuf>,
    },
}

fn main() -> std::process::ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Setup(wanted) => setup::run(wanted),
        Task::Try { binary } => demo::run(binary),
        Task::Test(args) => test::run(args),
        Task::Check => check::run(),
        Task::Bench(args) => bench::run(args),
        Task::TestCgroup2 { binary } => guest::run(binary),
    }
}
