//! Settings of a sandbox, as flags.

use crate::verbs::{assignment, duration};
use types::{BEFORE_STOP_MS, BeforeStop, SettingsRequest};

/// What a sandbox is set to; what is not named takes the server's default.
#[derive(clap::Args)]
#[command(next_help_heading = "Settings of the sandbox")]
pub struct SettingsArgs {
    /// The image of its instances: `host` or an imported one.
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// The main process: a program, or a JSON array of program and arguments.
    #[arg(long, value_name = "PROGRAM", value_parser = entrypoint)]
    entrypoint: Option<Argv>,
    /// Set a variable of the main process; repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    main_env: Vec<(String, String)>,
    /// Set a variable of every command of the sandbox; repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    env_var: Vec<(String, String)>,
    /// Set a label, to find the sandbox by; repeatable.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    label: Vec<(String, String)>,
    /// Let it reach beyond loopback, where the server allows that.
    #[arg(long)]
    enable_internet: bool,
    /// Run this in the instance before it is stopped: a program, or a JSON array of program and
    /// arguments.
    #[arg(long, value_name = "PROGRAM", value_parser = entrypoint)]
    before_stop: Option<Argv>,
    /// How long it may take; without a command, how long a stop waits.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    before_stop_timeout: Option<u64>,
    /// Stop after this long without activity; 0: never.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    idle_limit: Option<u64>,
    /// Re-check at least this often.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    check_interval: Option<u64>,
    /// End an instance after this long without a server and without a command.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    inactivity_timeout: Option<u64>,
    /// Expire after this long without activity; 0: never.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    idle_ttl: Option<u64>,
    /// Memory, MiB.
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
    /// Cores; 0.5 is half of one.
    #[arg(long, value_name = "CORES")]
    vcpu: Option<f64>,
    /// Processes and threads.
    #[arg(long, value_name = "COUNT")]
    pids: Option<u64>,
    /// Disk, MB.
    #[arg(long, value_name = "MB")]
    disk: Option<u64>,
}

impl SettingsArgs {
    /// The settings that were named; `None`: none at all.
    pub fn request(self) -> Option<SettingsRequest> {
        let map = |pairs: Vec<(String, String)>| {
            if pairs.is_empty() { None } else { Some(pairs.into_iter().collect()) }
        };
        let before_stop = match (self.before_stop, self.before_stop_timeout) {
            (None, None) => None,
            (argv, limit) => Some(BeforeStop {
                argv: argv.map(|argv| argv.0),
                timeout_ms: limit.unwrap_or(BEFORE_STOP_MS),
            }),
        };
        let request = SettingsRequest {
            image: self.image,
            entrypoint: self.entrypoint.map(|argv| argv.0),
            env: map(self.main_env),
            env_vars: map(self.env_var),
            labels: map(self.label),
            enable_internet: self.enable_internet.then_some(true),
            before_stop,
            idle_limit_ms: self.idle_limit,
            check_interval_ms: self.check_interval,
            inactivity_timeout_ms: self.inactivity_timeout,
            idle_ttl_ms: self.idle_ttl,
            memory_mib: self.memory,
            vcpu: self.vcpu,
            pids: self.pids,
            disk_mb: self.disk,
        };
        (request != SettingsRequest::default()).then_some(request)
    }
}

/// A list of arguments in one flag.
#[derive(Clone)]
struct Argv(Vec<String>);

fn entrypoint(text: &str) -> Result<Argv, String> {
    if !text.starts_with('[') {
        return Ok(Argv(vec![text.to_owned()]));
    }
    let argv = serde_json::from_str(text).map_err(|e| format!("not an array of strings: {e}"))?;
    Ok(Argv(argv))
}
