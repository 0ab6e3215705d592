//! All tests.

use crate::{guest, setup, sh};

/// Which tests, and how.
#[derive(clap::Args)]
pub struct Args {
    /// As the checks before a merge run them: one retry, each test's result printed.
    #[arg(long)]
    ci: bool,
    /// Before them the main job in a machine whose cgroups are v2 alone.
    #[arg(long)]
    cgroup2: bool,
    /// Only tests whose name contains one of these.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

/// Installs what tests need and runs them. The runner's summary comes last.
pub fn run(args: Args) -> anyhow::Result<()> {
    setup::run(setup::Wanted { tests: true, cgroup2: args.cgroup2, ..Default::default() })?;
    if args.cgroup2 {
        // The very program that the tests use, so that nothing is built twice.
        sh::say("building");
        sh::run(sh::cargo().args(["nextest", "run", "--workspace", "--no-run"]))?;
        guest::run(Some(sh::target_dir()?.join("debug/sandkeep")))?;
    }
    if args.filters.is_empty() {
        sh::say("examples in the documentation");
        sh::run(sh::cargo().args(["test", "--quiet", "--workspace", "--doc"]))?;
    }
    let profile = if args.ci { "ci" } else { "default" };
    let status = sh::cargo()
        .args(["nextest", "run", "--workspace", "--profile", profile])
        .args(args.filters)
        .status()?;
    // Its own words and its own code are the result; a line of ours after them would hide them.
    std::process::exit(status.code().unwrap_or(1))
}
