//! What may be typed.

use crate::verbs;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use types::Owner;

/// Keeps Linux sandboxes: named, durable, started when a command needs them, stopped when idle.
#[derive(Parser)]
#[command(name = "sandkeep", version, max_term_width = 100, propagate_version = true)]
#[command(after_help = "Exit codes: a command's own code is passed on; 124 its time is up,\n\
    125 an error of sandkeep, 126 not executable, 127 not found.")]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub verb: Verb,
}

/// What every verb takes.
#[derive(clap::Args)]
pub struct Global {
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// For whom: the owner of the sandboxes.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "SANDKEEP_OWNER",
        hide_env_values = true
    )]
    pub owner: Option<Owner>,
    /// Where the server is; its token comes from SANDKEEP_TOKEN.
    #[arg(long, global = true, value_name = "URL", env = "SANDKEEP_URL", hide_env_values = true)]
    pub url: Option<String>,
    /// The data directory; its server is reached through admin.sock.
    #[arg(long, global = true, value_name = "DIR", env = "SANDKEEP_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
}

/// The verbs.
#[derive(Subcommand)]
pub enum Verb {
    Serve(verbs::serve::Args),
    Run(verbs::run::Args),
    Exec(verbs::exec::Args),
    Code(verbs::code::Args),
    Contexts(verbs::contexts::Args),
    Cp(verbs::cp::Args),
    Env(verbs::env::Args),
    Label(verbs::label::Args),
    Ls(verbs::ls::Args),
    Inspect(verbs::inspect::Args),
    Stops(verbs::stops::Args),
    Executions(verbs::executions::Args),
    Quotas(verbs::quotas::Args),
    Events(verbs::events::Args),
    Backup(verbs::backup::Args),
    Restore(verbs::restore::Args),
    Start(verbs::start::Args),
    Stop(verbs::stop::Args),
    Rm(verbs::rm::Args),
    Touch(verbs::touch::Args),
    Logs(verbs::logs::Args),
    Image(verbs::image::Args),
    Engines(verbs::engines::Args),
    Token(verbs::token::Args),
    Doctor(verbs::doctor::Args),
    Top(verbs::top::Args),
    Webhooks(verbs::webhooks::Args),
    Version(verbs::version::Args),
}
