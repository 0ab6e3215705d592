//! `sandkeep contexts`: the interpreters of a sandbox, and states of them that are kept.

use crate::cli::Global;
use crate::verbs::code::EngineArgs;
use crate::{connect, output, verbs};
use clap::Subcommand;
use client::Client;
use types::{CheckpointInfo, ContextInfo, ContextRequest, Language, SandboxId};

/// List, make, fork, roll back and delete the code contexts of a sandbox
///
/// A context is an interpreter whose variables stay. `sandkeep code` makes the default one of
/// each binding by itself.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// A sandbox and a context of it.
#[derive(clap::Args)]
struct One {
    /// The sandbox.
    #[arg(value_name = "NAME")]
    id: SandboxId,
    /// The context's id.
    #[arg(value_name = "ID")]
    context: String,
}

#[derive(Subcommand)]
enum Verb {
    /// List them, oldest first: id, binding, engine, working directory, executions, last used
    Ls {
        /// The sandbox.
        #[arg(value_name = "NAME")]
        id: SandboxId,
    },
    /// Make one, and print its id
    Create {
        /// The sandbox.
        #[arg(value_name = "NAME")]
        id: SandboxId,
        #[command(flatten)]
        engine: EngineArgs,
        /// Working directory [default: /workspace].
        #[arg(long, value_name = "DIR")]
        cwd: Option<String>,
        /// Set a variable of its environment; repeatable.
        #[arg(long, value_name = "KEY=VALUE", value_parser = verbs::assignment)]
        env: Vec<(String, String)>,
    },
    /// Show all that is known of one
    Inspect(One),
    /// Delete some, with their variables and checkpoints; files stay
    Rm {
        /// The sandbox.
        #[arg(value_name = "NAME")]
        id: SandboxId,
        /// The contexts' ids.
        #[arg(value_name = "ID", required = true)]
        contexts: Vec<String>,
    },
    /// Make a second one with the same variables, and print its id
    Fork(One),
    /// Keep the state of one under a label
    Checkpoint {
        #[command(flatten)]
        of: One,
        /// What to call it.
        #[arg(value_name = "LABEL")]
        label: String,
    },
    /// List what was kept, oldest first: label, time, executions, bytes on the disk
    Checkpoints(One),
    /// Go back to a state that was kept; files stay as they are
    Rollback {
        #[command(flatten)]
        of: One,
        /// What it is called.
        #[arg(value_name = "LABEL")]
        label: String,
    },
    /// Delete states that were kept
    Forget {
        #[command(flatten)]
        of: One,
        /// What they are called.
        #[arg(value_name = "LABEL", required = true)]
        labels: Vec<String>,
    },
}

impl Args {
    /// Does it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let json = global.json;
        match self.verb {
            Verb::Ls { id } => {
                let all = connect::read(global, async |c| c.contexts(id.as_str()).await).await?;
                list(&all, json)?;
            }
            Verb::Create { id, engine, cwd, env } => {
                let engine = engine.or(Language::Python);
                let request = ContextRequest {
                    binding: engine.binding,
                    language: engine.language,
                    cwd,
                    env_vars: env.into_iter().collect(),
                };
                made(&connect::client(global)?.create_context(id.as_str(), &request).await?, json)?;
            }
            Verb::Inspect(One { id, context }) => {
                let ask = async |c: &Client| c.context(id.as_str(), &context).await;
                let info = connect::read(global, ask).await?;
                if json { output::json(&info)? } else { output::pairs(&told(&info))? }
            }
            Verb::Rm { id, contexts } => {
                let client = connect::client(global)?;
                let delete = async |context: &String| {
                    Ok(client.delete_context(id.as_str(), context).await?)
                };
                return Ok(verbs::each(&contexts, delete).await);
            }
            Verb::Fork(One { id, context }) => {
                made(&connect::client(global)?.fork_context(id.as_str(), &context).await?, json)?;
            }
            Verb::Checkpoint { of: One { id, context }, label } => {
                let client = connect::client(global)?;
                let kept = client.create_checkpoint(id.as_str(), &context, &label).await?;
                if json {
                    output::json(&kept)?;
                }
            }
            Verb::Checkpoints(One { id, context }) => {
                let ask = async |c: &Client| c.checkpoints(id.as_str(), &context).await;
                checkpoints(&connect::read(global, ask).await?, json)?;
            }
            Verb::Rollback { of: One { id, context }, label } => {
                let client = connect::client(global)?;
                let info = client.rollback(id.as_str(), &context, &label).await?;
                if json {
                    output::json(&info)?;
                }
            }
            Verb::Forget { of: One { id, context }, labels } => {
                let client = connect::client(global)?;
                let delete = async |label: &String| {
                    Ok(client.delete_checkpoint(id.as_str(), &context, label).await?)
                };
                return Ok(verbs::each(&labels, delete).await);
            }
        }
        Ok(0)
    }
}

fn list(all: &[ContextInfo], json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&all);
    }
    let header = ["ID", "BINDING", "ENGINE", "CWD", "EXECUTIONS", "LAST USED"];
    let row = |info: &ContextInfo| {
        vec![
            info.id.clone(),
            info.binding.clone(),
            info.engine.clone(),
            info.cwd.clone(),
            info.executions.to_string(),
            info.last_used.clone(),
        ]
    };
    output::rows(&header, all.iter().map(row).collect())
}

fn made(info: &ContextInfo, json: bool) -> anyhow::Result<()> {
    if json { output::json(info) } else { output::bytes(format!("{}\n", info.id).as_bytes()) }
}

fn told(info: &ContextInfo) -> Vec<(&'static str, String)> {
    let mut told = vec![
        ("id", info.id.clone()),
        ("binding", info.binding.clone()),
        ("language", info.language.as_str().to_owned()),
        ("engine", info.engine.clone()),
        ("working directory", info.cwd.clone()),
        ("created at", info.created_at.clone()),
        ("last used", info.last_used.clone()),
        ("executions", info.executions.to_string()),
    ];
    if let Some(snapshot) = &info.snapshot {
        let stale =
            if snapshot.stale { " (the execution after it could not be saved)" } else { "" };
        told.extend([
            ("saved at", format!("{}{stale}", snapshot.taken_at)),
            ("memory", format!("{} bytes, {} in use", snapshot.memory_bytes, snapshot.bytes)),
            ("on the disk", format!("{} bytes", snapshot.disk_bytes)),
            ("build", snapshot.build.clone()),
        ]);
    }
    told
}

fn checkpoints(all: &[CheckpointInfo], json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&all);
    }
    let row = |kept: &CheckpointInfo| {
        vec![
            kept.name.clone(),
            kept.created_at.clone(),
            kept.executions.to_string(),
            kept.disk_bytes.to_string(),
        ]
    };
    let header = ["LABEL", "CREATED AT", "EXECUTIONS", "BYTES"];
    output::rows(&header, all.iter().map(row).collect())
}
