//! `sandkeep executions`: the latest commands of a sandbox.

use crate::cli::Global;
use crate::{connect, output};
use client::Client;
use types::{ExecStatus, Execution, SandboxId};

/// Show the latest commands of a sandbox, newest first
///
/// Columns: id, generation, status, started, ended, exit code, program and arguments.
#[derive(clap::Args)]
pub struct Args {
    /// The sandbox.
    #[arg(value_name = "NAME")]
    id: SandboxId,
    /// How many at most.
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
}

impl Args {
    /// Shows them.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let ask = async |c: &Client| c.executions(self.id.as_str(), self.limit).await;
        let executions = connect::read(global, ask).await?;
        if global.json {
            output::json(&executions)?;
        } else {
            let header =
                ["ID", "START", "STATUS", "STARTED AT", "ENDED AT", "EXIT CODE", "COMMAND"];
            output::rows(&header, executions.iter().map(row).collect())?;
        }
        Ok(0)
    }
}

fn row(execution: &Execution) -> Vec<String> {
    let status = match execution.status {
        ExecStatus::Running => "running",
        ExecStatus::Exited if execution.timed_out => "timed out",
        ExecStatus::Exited if execution.oom_killed => "out of memory",
        ExecStatus::Exited => "exited",
        ExecStatus::Unknown => "unknown",
    };
    vec![
        execution.id.clone(),
        execution.generation.to_string(),
        status.to_owned(),
        output::time(execution.started_at),
        output::time(execution.ended_at),
        output::number(execution.exit_code),
        serde_json::to_string(&execution.argv).unwrap_or_default(),
    ]
}
