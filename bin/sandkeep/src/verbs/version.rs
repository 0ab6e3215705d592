//! `sandkeep version`: which release this is.

use crate::cli::Global;
use crate::output;
use serde_json::json;

/// Print the version
#[derive(clap::Args)]
pub struct Args {}

impl Args {
    /// Prints it.
    pub fn run(self, global: &Global) -> anyhow::Result<u8> {
        let version = env!("CARGO_PKG_VERSION");
        if global.json {
            let protocol = spawner::protocol::VERSION;
            output::json(&json!({ "version": version, "supervisorProtocol": protocol }))?;
        } else {
            output::bytes(format!("sandkeep {version}\n").as_bytes())?;
        }
        Ok(0)
    }
}
