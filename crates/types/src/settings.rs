//! What a sandbox is set to.

use crate::list::check_labels;
use crate::{BeforeStop, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Limits of an instance. They hold for the instance as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Memory, MiB (1 MiB = 1 048 576 bytes).
    pub memory_mib: u64,
    /// Processor share in whole cores; 0.5 is half of one.
    pub vcpu: f64,
    /// Most processes and threads at once.
    pub pids: u64,
    /// Root file system changes and workspace together, MB (1 MB = 1 000 000 bytes).
    pub disk_mb: u64,
}

/// The time settings that a server starts with; a sandbox that names none takes these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimeDefaults {
    /// Stop after this long without activity, ms; 0 = never.
    pub idle_limit_ms: u64,
    /// Re-check at least this often, ms.
    pub check_interval_ms: u64,
    /// The backstop while no daemon lives, ms.
    pub inactivity_timeout_ms: u64,
    /// Expire after this long without activity, ms; 0 = never.
    pub idle_ttl_ms: u64,
}

impl Default for TimeDefaults {
    fn default() -> Self {
        Self {
            idle_limit_ms: 600_000,
            check_interval_ms: 60_000,
            inactivity_timeout_ms: 300_000,
            idle_ttl_ms: 30 * 86_400_000,
        }
    }
}

/// All settings of one sandbox, as they count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// The image of its instances.
    pub image: String,
    /// The main process; null: init idles by itself.
    pub entrypoint: Option<Vec<String>>,
    /// Environment of the main process, over the image's.
    pub env: BTreeMap<String, String>,
    /// Whether instances may reach beyond loopback.
    pub enable_internet: bool,
    /// What happens before an instance is stopped; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_stop: Option<BeforeStop>,
    /// The time settings.
    #[serde(flatten)]
    pub time: TimeDefaults,
    /// The limits of an instance.
    #[serde(flatten)]
    pub limits: Limits,
}

/// Body of `PUT /v1/sandboxes/{id}`. What is absent takes the server's default, or, where the
/// sandbox exists, stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SettingsRequest {
    /// The image of its instances; `host` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The main process; without one init idles by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// Environment of the main process, over the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Environment of every command of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, String>>,
    /// Labels to find it by; at most 32. Names have 1 to 63 of `A-Z a-z 0-9 . _ / -`, values at
    /// most 255 bytes and no control characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether instances may reach beyond loopback; refused where the operator does not allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_internet: Option<bool>,
    /// What happens before an instance is stopped; with `timeoutMs` 0 nothing any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_stop: Option<BeforeStop>,
    /// Stop after this long without activity, ms; 0 = never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_limit_ms: Option<u64>,
    /// Re-check at least this often, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_interval_ms: Option<u64>,
    /// The backstop while no daemon lives, ms; longer than the check interval, at most 6 h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inactivity_timeout_ms: Option<u64>,
    /// Expire after this long without activity, ms; 0 = never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ttl_ms: Option<u64>,
    /// Memory, MiB; 512 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Cores; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpu: Option<f64>,
    /// Processes and threads; 512 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// Disk, MB; 2000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}

/// Body of `PATCH /v1/sandboxes/{id}`: a [`SettingsRequest`] whose `envVars` and `labels` may also
/// remove.
/// Time settings count at once, image, entrypoint, env and limits from the next start on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// Variables to set, or with null to remove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, Option<String>>>,
    /// Labels to set, or with null to remove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, Option<String>>>,
    /// All other settings; its own `envVars` and `labels` are never set.
    #[serde(flatten)]
    pub settings: SettingsRequest,
}

// serde ignores `deny_unknown_fields` below `flatten`, so the two halves are parted by hand.
impl<'de> Deserialize<'de> for Patch {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        use serde::de::Error as _;
        let mut fields = serde_json::Map::deserialize(d)?;
        let mut own = |name: &str| match fields.remove(name) {
            None => Ok(None),
            Some(map) => {
                serde_json::from_value(map).map_err(|e| D::Error::custom(format!("{name}: {e}")))
            }
        };
        let (env_vars, labels) = (own("envVars")?, own("labels")?);
        let settings = serde_json::from_value(fields.into()).map_err(D::Error::custom)?;
        Ok(Self { env_vars, labels, settings })
    }
}

/// Six hours: the longest inactivity time-out.
const MAX_INACTIVITY_MS: u64 = 6 * 3_600_000;
/// A hundred years.
const MAX_MS: u64 = 36_500 * 86_400_000;

impl Settings {
    /// The settings that a request with nothing in it yields.
    pub fn defaults(time: TimeDefaults) -> Self {
        Self {
            image: "host".to_owned(),
            entrypoint: None,
            env: BTreeMap::new(),
            enable_internet: false,
            before_stop: None,
            time,
            limits: Limits::default(),
        }
    }

    /// These settings with those of `request` over them, validated.
    pub fn with(&self, request: &SettingsRequest) -> Result<Self> {
        let r = request.clone();
        let settings = Self {
            image: r.image.unwrap_or_else(|| self.image.clone()),
            entrypoint: r.entrypoint.or_else(|| self.entrypoint.clone()),
            env: r.env.unwrap_or_else(|| self.env.clone()),
            enable_internet: r.enable_internet.unwrap_or(self.enable_internet),
            before_stop: match r.before_stop {
                None => self.before_stop.clone(),
                some => some.filter(BeforeStop::is_set),
            },
            time: TimeDefaults {
                idle_limit_ms: r.idle_limit_ms.unwrap_or(self.time.idle_limit_ms),
                check_interval_ms: r.check_interval_ms.unwrap_or(self.time.check_interval_ms),
                inactivity_timeout_ms: r
                    .inactivity_timeout_ms
                    .unwrap_or(self.time.inactivity_timeout_ms),
                idle_ttl_ms: r.idle_ttl_ms.unwrap_or(self.time.idle_ttl_ms),
            },
            limits: Limits {
                memory_mib: r.memory_mib.unwrap_or(self.limits.memory_mib),
                vcpu: r.vcpu.unwrap_or(self.limits.vcpu),
                pids: r.pids.unwrap_or(self.limits.pids),
                disk_mb: r.disk_mb.unwrap_or(self.limits.disk_mb),
            },
        };
        settings.validate()?;
        Ok(settings)
    }

    fn validate(&self) -> Result<()> {
        if self.image.is_empty() || self.image.len() > 255 || self.image.contains('\0') {
            return Err(Error::invalid("image", "image must have 1 to 255 bytes and no NUL"));
        }
        if let Some(argv) = &self.entrypoint {
            check_argv("entrypoint", argv)?;
        }
        check_env("env", self.env.iter().map(|(k, v)| (k, Some(v))))?;
        if let Some(before_stop) = &self.before_stop {
            before_stop.validate()?;
        }
        self.limits.validate()?;
        self.time.validate()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_mib: 512, vcpu: 1.0, pids: 512, disk_mb: 2000 }
    }
}

impl Limits {
    fn validate(&self) -> Result<()> {
        within("memoryMib", self.memory_mib, 8, 1 << 22)?;
        within("pids", self.pids, 4, 1 << 22)?;
        within("diskMb", self.disk_mb, 1, 1 << 30)?;
        if !(self.vcpu >= 0.01 && self.vcpu <= 1024.0) {
            return Err(Error::invalid("vcpu", "vcpu must be between 0.01 and 1024")
                .with("min", 0.01)
                .with("max", 1024));
        }
        Ok(())
    }
}

impl TimeDefaults {
    /// Checks the rules of section 6: the inactivity time-out is 1 ms to 6 h and longer than
    /// the check interval; nothing is longer than a hundred years.
    pub fn validate(&self) -> Result<()> {
        within("idleLimitMs", self.idle_limit_ms, 0, MAX_MS)?;
        within("idleTtlMs", self.idle_ttl_ms, 0, MAX_MS)?;
        within("checkIntervalMs", self.check_interval_ms, 1, MAX_INACTIVITY_MS)?;
        within("inactivityTimeoutMs", self.inactivity_timeout_ms, 1, MAX_INACTIVITY_MS)?;
        if self.inactivity_timeout_ms <= self.check_interval_ms {
            return Err(Error::invalid(
                "inactivityTimeoutMs",
                format!(
                    "inactivityTimeoutMs ({}) must be longer than checkIntervalMs ({})",
                    self.inactivity_timeout_ms, self.check_interval_ms
                ),
            ));
        }
        Ok(())
    }
}

fn within(field: &str, value: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(field, format!("{field} must be between {min} and {max}, not {value}"))
        .with("min", min)
        .with("max", max))
}

/// An argument list is not empty and has no NUL.
pub(crate) fn check_argv(field: &str, argv: &[String]) -> Result<()> {
    match argv.first() {
        None => {
            return Err(Error::invalid(field, format!("{field} must have at least one string")));
        }
        Some(program) if program.is_empty() => {
            return Err(Error::invalid(field, format!("{field}[0], the program, is empty")));
        }
        Some(_) => {}
    }
    match argv.iter().position(|a| a.contains('\0')) {
        Some(i) => Err(Error::invalid(field, format!("{field}[{i}] contains a NUL character"))),
        None => Ok(()),
    }
}

/// Keys are not empty and have no `=` or NUL, values have no NUL; nothing else is changed.
pub(crate) fn check_env<'a>(
    field: &str,
    env: impl Iterator<Item = (&'a String, Option<&'a String>)>,
) -> Result<()> {
    for (key, value) in env {
        if key.is_empty() || key.contains(['=', '\0']) {
            let rule = "names must not be empty nor contain '=' or NUL";
            return Err(Error::invalid(field, format!("{field} has the name {key:?}: {rule}")));
        }
        if value.is_some_and(|v| v.contains('\0')) {
            return Err(Error::invalid(field, format!("{field}.{key} contains a NUL character")));
        }
    }
    Ok(())
}

/// Names of sandbox variables (S4): `^[A-Za-z_][A-Za-z0-9_]*$`; values have no NUL.
pub(crate) fn check_env_vars<'a>(
    env: impl Iterator<Item = (&'a String, Option<&'a String>)>,
) -> Result<()> {
    for (key, value) in env {
        let head = key.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !head || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            let rule = "names must match ^[A-Za-z_][A-Za-z0-9_]*$";
            return Err(Error::invalid("envVars", format!("envVars has the name {key:?}: {rule}")));
        }
        if value.is_some_and(|v| v.contains('\0')) {
            return Err(Error::invalid("envVars", format!("envVars.{key} contains a NUL")));
        }
    }
    Ok(())
}

impl SettingsRequest {
    /// Checks what [`Settings::with`] does not see: the sandbox variables and the labels.
    pub fn validate_maps(&self) -> Result<()> {
        check_env_vars(self.env_vars.iter().flatten().map(|(k, v)| (k, Some(v))))?;
        check_labels("labels", self.labels.iter().flatten().map(|(k, v)| (k, Some(v))))
    }
}

impl Patch {
    /// Checks the sandbox variables and the labels.
    pub fn validate_maps(&self) -> Result<()> {
        check_env_vars(self.env_vars.iter().flatten().map(|(k, v)| (k, v.as_ref())))?;
        check_labels("labels", self.labels.iter().flatten().map(|(k, v)| (k, v.as_ref())))
    }
}
