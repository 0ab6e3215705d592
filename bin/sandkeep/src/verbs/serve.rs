//! `sandkeep serve`: the server.

use crate::cli::Global;
use crate::config::{Config, EngineKind, Listen, LogFormat};
use crate::{connect, serve};
use serde::Serialize;
use std::path::PathBuf;

/// Serve sandboxes until SIGTERM or SIGINT
///
/// Each flag may also stand in the environment (--idle-limit as SANDKEEP_IDLE_LIMIT) or in the
/// file that --config names (`idle-limit = "10m"`); a flag is over the environment, that over the
/// file. Durations are 1500ms, 10s, 10m, 24h, 30d; a bare number is ms.
///
/// Instances and their commands live on after the server, and the next one takes them up. Each
/// stop of an instance is one JSON line on standard output.
#[derive(clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Args {
    /// Where to listen [default: 127.0.0.1:7700]; port 0: any free one; unix:PATH: a socket, whose
    /// callers are who the kernel says they are.
    #[arg(long, value_name = "ADDRESS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<Listen>,
    /// Speak TLS with this certificate and its chain, in PEM; read again when it changes.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key, in PEM.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_key: Option<PathBuf>,
    /// Stop all instances at the end.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_on_exit: Option<bool>,
    /// Run this with /bin/sh at each stop, with the stop as JSON on standard input.
    #[arg(long, value_name = "COMMAND")]
    #[serde(skip_serializing_if = "Option::is_none")]
    on_stop: Option<String>,
    /// Let anyone in who reaches the loopback address, although there are tokens.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<bool>,
    /// Stop an instance after this long without activity [default: 10m]; 0: never.
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_limit: Option<u64>,
    /// Re-check idle instances at least this often [default: 60s].
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    #[serde(skip_serializing_if = "Option::is_none")]
    check_interval: Option<u64>,
    /// End an instance after this long without a server and without a command [default: 5m].
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    #[serde(skip_serializing_if = "Option::is_none")]
    inactivity_timeout: Option<u64>,
    /// Expire a sandbox after this long without activity [default: 30d]; 0: never.
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_ttl: Option<u64>,
    /// What makes instances [default: native].
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<EngineKind>,
    /// The program of the engine `oci` [default: runc].
    #[arg(long, value_name = "PROGRAM")]
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime: Option<String>,
    /// First host user id that instances get [default: 524288].
    #[arg(long, value_name = "ID")]
    #[serde(skip_serializing_if = "Option::is_none")]
    id_base: Option<u32>,
    /// Freeze writers when less than this is free on the disk [default: 5 % of it, at most 512 MiB].
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_floor: Option<u64>,
    /// Where engines for code are installed [default: /var/cache/sandkeep as root, else in the
    /// user's cache directory].
    #[arg(long, value_name = "DIRECTORY")]
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_cache: Option<PathBuf>,
    /// A TOML file with any of these settings.
    #[arg(long, value_name = "FILE", env = "SANDKEEP_CONFIG", hide_env_values = true)]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// How the log on standard error looks [default: text].
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    log_format: Option<LogFormat>,
}

impl Args {
    /// Serves.
    pub fn run(self, global: &Global) -> anyhow::Result<u8> {
        let environment = std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect();
        let file = self.config.as_deref().filter(|p| !p.as_os_str().is_empty());
        let config = Config::load(&self, &environment, file)?;
        let data = connect::data_dir(global.data.as_deref().or(config.data.as_deref()))?;
        serve::run(config, &data)
    }
}
