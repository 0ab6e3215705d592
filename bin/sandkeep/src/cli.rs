//! What may be typed.

use crate::verbs;
use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
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

impl Cli {
    /// Reads the command line. What is typed there is over the environment, also where the two name
    /// the server in different ways.
    pub fn read() -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        let mut cli = Self::from_arg_matches(&matches)?;
        let typed = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
        match (typed("url"), typed("data")) {
            (true, true) => {
                let message = "--url and --data both say where the server is; one is enough";
                Err(command.error(clap::error::ErrorKind::ArgumentConflict, message))
            }
            (false, true) => {
                cli.global.url = None;
                Ok(cli)
            }
            _ => Ok(cli),
        }
    }
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
    Run(Box<verbs::run::Args>),
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
