//! Programs, and where things are.

use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The repository: as cargo tells it now, since a target directory that checkouts share may hold
/// the program that another of them built.
pub fn root() -> PathBuf {
    let told = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = told.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    here.parent().map_or(here.clone(), Path::to_owned)
}

/// The cargo that runs this task.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Where cargo builds to.
pub fn target_dir() -> anyhow::Result<PathBuf> {
    let text = output(cargo().args(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_slice(&text.stdout)?;
    Ok(metadata["target_directory"].as_str().context("cargo names no target directory")?.into())
}

/// Builds the program and answers where it is.
pub fn sandkeep(release: bool) -> anyhow::Result<PathBuf> {
    let profile = if release { "release" } else { "dev" };
    say(&format!("building sandkeep ({profile})"));
    run(cargo().args(["build", "--quiet", "--package", "sandkeep", "--profile", profile]))?;
    Ok(target_dir()?.join(if release { "release" } else { "debug" }).join("sandkeep"))
}

/// Runs a program to its end; an error where it fails.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a program and keeps what it writes; an error where it fails.
pub fn output(command: &mut Command) -> anyhow::Result<Output> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", shown(command), output.status);
    }
    Ok(output)
}

/// Whether a program of this name is in `PATH`, or where root's programs are.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).collect::<Vec<_>>();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    dirs.iter().chain(&more).any(|dir| dir.join(program).is_file())
}

/// Says what is being done, on standard error.
pub fn say(what: &str) {
    eprintln!("xtask: {what}");
}

fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args().take(6) {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}
