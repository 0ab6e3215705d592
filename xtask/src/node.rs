//! Node, which the TypeScript client is built and tried with.

use crate::sh;
use anyhow::bail;
use std::process::Command;

/// The oldest major version that the client is for.
const OLDEST: u32 = 20;
/// What is installed where the system's own is older.
const PACKAGE: &str = "node@22.23.3";

/// Sees to it that node is new enough; node and npm themselves are there.
pub fn ensure() -> anyhow::Result<()> {
    let found = version();
    if found.is_some_and(|major| major >= OLDEST) {
        return Ok(());
    }
    let by_hand = format!("install node {OLDEST} or newer by hand");
    if !sh::has("npm") {
        bail!("there is no npm: {by_hand}");
    }
    let root = rustix::process::geteuid().is_root();
    if !root && !sh::has("sudo") {
        bail!("neither root nor sudo: {by_hand}");
    }
    sh::say(&format!("installing {PACKAGE}"));
    let mut command = Command::new(if root { "npm" } else { "sudo" });
    if !root {
        command.args(["--", "npm"]);
    }
    command.args(["install", "--global", "--no-fund", "--no-audit", PACKAGE]);
    // Talk belongs on standard error.
    sh::run(command.stdout(std::io::stderr()))?;
    match version() {
        Some(major) if major >= OLDEST => Ok(()),
        other => bail!("node is still {other:?} after installing {PACKAGE}: {by_hand}"),
    }
}

/// Types of the client, of its tests and of its examples.
pub fn check() -> anyhow::Result<()> {
    sh::say("types of sdk/typescript");
    for arguments in [&["ci"][..], &["run", "--silent", "check"]] {
        let mut npm = Command::new("npm");
        npm.current_dir(sh::root().join("sdk/typescript")).args(arguments);
        sh::run(npm.stdout(std::io::stderr()))?;
    }
    Ok(())
}

/// The major version of the node in `PATH`.
fn version() -> Option<u32> {
    let output = Command::new("node").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}
