//! `sandkeep quotas`: what an owner may have, and has.

use crate::cli::Global;
use crate::{connect, output};

/// Show what the owner may have, and what it has
///
/// Columns: what, current, limit. The limits of the server as a whole may be reached earlier.
#[derive(clap::Args)]
pub struct Args {}

impl Args {
    /// Shows them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let report = connect::read(global, async |c| c.quotas().await).await?;
        if global.json {
            output::json(&report)?;
            return Ok(0);
        }
        let (now, most) = (&report.current, &report.limits);
        let whole = |what: &str, current: Option<u64>, limit: Option<u64>| {
            vec![what.to_owned(), output::number(current), output::number(limit)]
        };
        let rows = vec![
            whole("sandboxes", Some(now.sandboxes), most.sandboxes),
            whole("running", Some(now.running), most.running),
            whole("memoryMib", Some(now.memory_mib), most.memory_mib),
            vec!["vcpu".to_owned(), now.vcpu.to_string(), output::number(most.vcpu)],
            whole("workspaceBytes", Some(now.workspace_bytes), most.workspace_bytes),
            whole("contexts", Some(now.contexts), most.contexts),
            whole("tokens", Some(now.tokens), most.tokens),
            vec![
                "requestsPerSecond".to_owned(),
                output::number::<f64>(None),
                output::number(most.requests_per_second),
            ],
        ];
        output::rows(&["WHAT", "CURRENT", "LIMIT"], rows)?;
        Ok(0)
    }
}
