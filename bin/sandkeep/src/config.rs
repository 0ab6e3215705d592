//! The configuration of a server: flag > environment > `--config` file > default.

mod auth;
mod listen;
mod memory;
mod quotas;
mod retention;
mod values;
mod webhook;

pub use self::auth::AuthConfig;
pub use self::listen::Listen;
pub use webhook::Webhook;

use crate::connect::DEFAULT_LISTEN;
use crate::fail::Failure;
use figment::providers::{Format as _, Serialized, Toml};
use figment::{Figment, Profile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use types::TimeDefaults;

/// The keys, as they stand in a file; in the environment `SANDKEEP_IDLE_LIMIT` and so on.
const KEYS: [&str; 17] = [
    "listen",
    "data",
    "tls-cert",
    "tls-key",
    "stop-on-exit",
    "on-stop",
    "open",
    "idle-limit",
    "check-interval",
    "inactivity-timeout",
    "idle-ttl",
    "engine",
    "runtime",
    "id-base",
    "disk-floor",
    "engine-cache",
    "log-format",
];

/// Where the pool of user ids may begin. Below are the machine's own users, root above all.
const ID_BASES: std::ops::RangeInclusive<u32> = 65_536..=4_294_000_000;

/// Which back end makes instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// Our own.
    Native,
    /// An OCI runtime.
    Oci,
}

/// How the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// What `serve` goes by.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Config {
    /// Where to listen.
    pub listen: Listen,
    /// The certificate for TLS, with its chain, in PEM; `None`: no TLS.
    pub tls_cert: Option<PathBuf>,
    /// Its key, in PEM.
    pub tls_key: Option<PathBuf>,
    /// The data directory; `None`: the default one.
    pub data: Option<PathBuf>,
    /// Stop all instances at the end.
    #[serde(deserialize_with = "values::flag")]
    pub stop_on_exit: bool,
    /// A command to run at each stop.
    pub on_stop: Option<String>,
    /// No authentication, whatever was set up.
    #[serde(deserialize_with = "values::flag")]
    pub open: bool,
    /// Ms.
    #[serde(deserialize_with = "values::duration")]
    pub idle_limit: u64,
    /// Ms.
    #[serde(deserialize_with = "values::duration")]
    pub check_interval: u64,
    /// Ms.
    #[serde(deserialize_with = "values::duration")]
    pub inactivity_timeout: u64,
    /// Ms.
    #[serde(deserialize_with = "values::duration")]
    pub idle_ttl: u64,
    /// Which back end makes instances.
    pub engine: EngineKind,
    /// The program of the OCI back end.
    pub runtime: String,
    /// First host id of the pool that instances get their ids from.
    #[serde(deserialize_with = "values::optional_number")]
    pub id_base: Option<u32>,
    /// Bytes of free space below which writers are frozen; `None`: the engine's default.
    #[serde(deserialize_with = "values::optional_number")]
    pub disk_floor: Option<u64>,
    /// Where engines for code are installed; `None`: the default place.
    pub engine_cache: Option<PathBuf>,
    /// Names for engines, over the usual ones: in the file alone.
    pub bindings: BTreeMap<String, String>,
    /// What the account's list is known by: in the file alone.
    pub account: Account,
    /// How much owners and the machine may have: in the file alone.
    pub quotas: quotas::Tables,
    /// When the machine counts as short of memory: in the file alone.
    pub memory: memory::Memory,
    /// How long is kept what is old: in the file alone.
    pub retention: retention::Kept,
    /// Where events are sent to: in the file alone.
    pub webhooks: Vec<Webhook>,
    /// Where traces are sent to: in the file, or as every exporter is told by the environment.
    pub otel: Otel,
    /// Who may come in besides tokens: in the file alone.
    pub auth: AuthConfig,
    /// How the log looks.
    pub log_format: LogFormat,
}

/// `[otel]`: the collector of traces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Otel {
    /// The URL below which it takes `v1/traces`; `None`: the environment's, else none.
    pub endpoint: Option<String>,
}

/// What the account's list is known by; what is absent may be called anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Account {
    /// The account: a UUID or a name.
    pub id: Option<String>,
    /// The application: a UUID or a name.
    pub application: Option<String>,
}

impl Config {
    /// Puts the layers over each other. `flags` holds what the command line named, by key;
    /// `environment` is the process's.
    pub fn load(
        flags: &impl Serialize,
        environment: &BTreeMap<String, String>,
        file: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let mut figment = Figment::from(Serialized::defaults(defaults()));
        if let Some(file) = file {
            if let Err(error) = std::fs::metadata(file) {
                let text =
                    format!("cannot read the configuration file {}: {error}", file.display());
                return Err(Failure::new(text).into());
            }
            figment = figment.merge(Toml::file_exact(file));
        }
        figment = figment
            .merge(values::Environment(variables(environment)?))
            .merge(Serialized::from(flags, Profile::Default));
        let config: Self = figment.extract().map_err(|e| explain(&e, file))?;
        config.time().validate().map_err(|e| Failure::new(format!("the configuration: {e}")))?;
        for (key, name) in
            [("id", &config.account.id), ("application", &config.account.application)]
        {
            if name.as_ref().is_some_and(|n| n.is_empty() || n.len() > 255 || n.contains('/')) {
                let text = format!("account.{key} must have 1 to 255 bytes and no slash");
                return Err(Failure::new(text).hint("it is one segment of a path").into());
            }
        }
        if let Some(base) = config.id_base.filter(|base| !ID_BASES.contains(base)) {
            let (first, last) = (ID_BASES.start(), ID_BASES.end());
            let text = format!("the id base {base} is not between {first} and {last}");
            let hint = "lower ids are those of the machine's own users";
            return Err(Failure::new(text).hint(hint).into());
        }
        config.check_doors()?;
        Ok(config)
    }

    /// What the operator allows.
    pub fn upkeep(&self, data: &Path) -> sandbox::Upkeep {
        sandbox::Upkeep {
            data: Some(data.to_owned()),
            quotas: self.quotas.table(),
            wait: Duration::from_millis(self.quotas.wait()),
            memory: self.memory.rules(),
            retention: self.retention.retention(),
        }
    }

    /// What concerns who comes in must fit together.
    fn check_doors(&self) -> anyhow::Result<()> {
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            let text = "TLS needs both a certificate and its key";
            return Err(Failure::new(text).hint("say --tls-cert FILE and --tls-key FILE").into());
        }
        if self.tls_cert.is_some() && matches!(self.listen, Listen::Unix(_)) {
            return Err(Failure::new("there is no TLS on a unix socket").into());
        }
        self.auth.check()
    }

    /// The time settings of a sandbox that names none.
    pub fn time(&self) -> TimeDefaults {
        TimeDefaults {
            idle_limit_ms: self.idle_limit,
            check_interval_ms: self.check_interval,
            inactivity_timeout_ms: self.inactivity_timeout,
            idle_ttl_ms: self.idle_ttl,
        }
    }
}

fn defaults() -> serde_json::Value {
    let time = TimeDefaults::default();
    serde_json::json!({
        "listen": DEFAULT_LISTEN,
        "tls-cert": null,
        "tls-key": null,
        "stop-on-exit": false,
        "open": false,
        "idle-limit": time.idle_limit_ms,
        "check-interval": time.check_interval_ms,
        "inactivity-timeout": time.inactivity_timeout_ms,
        "idle-ttl": time.idle_ttl_ms,
        "engine": "native",
        "runtime": "runc",
        "id-base": null,
        "disk-floor": null,
        "engine-cache": null,
        "bindings": {},
        "account": {},
        "quotas": {},
        "memory": {},
        "retention": {},
        "webhooks": [],
        "otel": {},
        "auth": {},
        "log-format": "text",
    })
}

/// What the environment sets, by key, with the variable's name. An empty one sets nothing.
fn variables(
    environment: &BTreeMap<String, String>,
) -> anyhow::Result<BTreeMap<&'static str, (String, String)>> {
    let get = |name: &str| environment.get(name).filter(|v| !v.is_empty()).cloned();
    let mut set = BTreeMap::new();
    // The name that the documents give it (S4): always a plain number of milliseconds.
    let documented = "SANDBOX_IDLE_TTL_MS";
    if let Some(value) = get(documented) {
        if !value.bytes().all(|b| b.is_ascii_digit()) {
            let text = format!("{documented} is {value:?}: it must be a whole number of ms");
            return Err(Failure::new(text).into());
        }
        set.insert("idle-ttl", (documented.to_owned(), value));
    }
    for key in KEYS {
        let name = format!("SANDKEEP_{}", key.replace('-', "_").to_ascii_uppercase());
        if let Some(value) = get(&name) {
            set.insert(key, (name, value));
        }
    }
    Ok(set)
}

fn explain(error: &figment::Error, file: Option<&Path>) -> Failure {
    use figment::error::Kind;
    let key = error.path.join(".");
    let from = match error.metadata.as_ref() {
        Some(source) if source.name.contains("TOML") => {
            format!(" in {}", file.unwrap_or(Path::new("the file")).display())
        }
        Some(source) if source.name.starts_with("environment") => {
            let name = key.replace('-', "_").to_ascii_uppercase();
            format!(" in the environment (SANDKEEP_{name})")
        }
        _ => String::new(),
    };
    match &error.kind {
        Kind::UnknownField(field, known) if error.path.len() > 1 => {
            let table = error.path[..error.path.len() - 1].join(".");
            Failure::new(format!("unknown key {field:?} in [{table}]{from}"))
                .hint(format!("the keys there are {}", known.join(", ")))
        }
        Kind::UnknownField(field, _) => {
            Failure::new(format!("unknown key {field:?}{from}")).hint(format!(
                "the keys are {}, and the tables [bindings], [account], [auth], [quotas], \
                 [memory], [retention], [otel] and [[webhooks]]",
                KEYS.join(", ")
            ))
        }
        kind if key.is_empty() => Failure::new(format!("the configuration{from}: {kind}")),
        kind => Failure::new(format!("{key:?}{from}: {kind}")),
    }
}

#[cfg(test)]
mod tests;
