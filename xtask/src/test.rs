//! All tests.

use crate::{engines, guest, setup, sh};

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
    // The very program that the tests use, so that nothing is built twice.
    sh::say("building");
    sh::run(sh::cargo().args(["nextest", "run", "--workspace", "--no-run"]))?;
    let binary = sh::target_dir()?.join("debug/sandkeep");
    // Here, where it is seen how far it is, and not within the time of the first test.
    sh::say("installing engines that are not there yet");
    sh::run(&mut engines::install(&binary, &engines::cache()?, &["--all"]))?;
    if args.cgroup2 {
        guest::run(Some(binary))?;
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
