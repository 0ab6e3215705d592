//! The interpreters of code contexts: installed once, kept beside what cargo builds.

use crate::sh;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where they are kept: `SANDKEEP_ENGINE_CACHE`, else a directory of cargo's target directory,
/// which the tests use as well.
pub fn cache() -> anyhow::Result<PathBuf> {
    match std::env::var_os("SANDKEEP_ENGINE_CACHE").filter(|v| !v.is_empty()) {
        Some(cache) => Ok(std::path::absolute(cache)?),
        None => Ok(sh::target_dir()?.join("engines")),
    }
}

/// The verb that installs these. What is there already is left as it is.
pub fn install(binary: &Path, cache: &Path, engines: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(["engines", "install"]).args(engines);
    command.env("SANDKEEP_ENGINE_CACHE", cache);
    command
}
