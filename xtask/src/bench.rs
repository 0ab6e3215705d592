//! Measurements. The code that measures is the package `benches`: it needs the crates that it
//! measures, which no other task should have to build.

use crate::{engines, setup, sh};
use std::path::PathBuf;
use std::process::Command;

/// What is measured against.
const IPYKERNEL: &str = "7.4.0";
const JUPYTER_CLIENT: &str = "8.10.0";
const PYODIDE: &str = "314.0.7";

/// What is measured.
#[derive(clap::Args)]
pub struct Args {
    /// `engine`: instances, commands, HTTP, the store, memory; beside runc, bubblewrap and the
    /// bare system calls. `contexts`: code, beside ipykernel and pyodide. `lists`: pages among few
    /// sandboxes and among many.
    #[arg(value_parser = ["engine", "contexts", "lists"])]
    what: String,
    /// Fewer rounds, and docs/benchmarks*.md is left as it is.
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
    bench.arg("--binary").arg(&binary).arg("--floor").arg(floor);
    let report = match args.what.as_str() {
        "contexts" => {
            let peers = peers()?;
            bench.arg("--peers").arg(peers).arg("--scripts").arg(sh::root().join("benches/peers"));
            let cache = engines::cache()?;
            sh::run(&mut engines::install(
                &binary,
                &cache,
                &["python", "python-data", "javascript"],
            ))?;
            bench.arg("--engine-cache").arg(cache);
            "docs/benchmarks-contexts.md"
        }
        "lists" => "docs/benchmarks-lists.md",
        _ => "docs/benchmarks.md",
    };
    if args.quick {
        bench.arg("--quick");
    } else {
        bench.arg("--report").arg(sh::root().join(report));
    }
    sh::run(&mut bench)
}

/// Installs ipykernel and pyodide below the target directory, pinned; where they are there,
/// nothing is done.
fn peers() -> anyhow::Result<PathBuf> {
    let peers = sh::target_dir()?.join("bench-peers");
    let done = peers.join(format!("{IPYKERNEL}-{JUPYTER_CLIENT}-{PYODIDE}"));
    if done.exists() {
        return Ok(peers);
    }
    std::fs::create_dir_all(&peers)?;
    sh::say("installing ipykernel and pyodide");
    sh::run(Command::new("python3").args(["-m", "venv"]).arg(peers.join("venv")))?;
    let mut pip = Command::new(peers.join("venv/bin/python"));
    pip.args(["-m", "pip", "install", "--quiet"]).arg(format!("ipykernel=={IPYKERNEL}"));
    sh::run(pip.arg(format!("jupyter_client=={JUPYTER_CLIENT}")))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-save", "--prefix"]).arg(&peers);
    sh::run(npm.arg(format!("pyodide@{PYODIDE}")))?;
    std::fs::write(done, "")?;
    Ok(peers)
}
