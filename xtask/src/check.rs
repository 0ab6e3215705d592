//! Formatting, lints and types.

use crate::{node, sh};

/// Fails at the first finding.
pub fn run() -> anyhow::Result<()> {
    sh::say("formatting");
    sh::run(sh::cargo().args(["fmt", "--all", "--check"]))?;
    sh::say("lints");
    sh::run(sh::cargo().args([
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ]))?;
    node::check()
}
