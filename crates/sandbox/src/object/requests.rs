//! What callers ask, as far as it concerns one sandbox.

use super::{Acquired, Reply, SandboxObject};
use crate::errors;
use crate::machine::{Event, Finish, Phase, Verdict};
use containers::Capabilities;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::oneshot;
use types::{
    Error, ErrorCode, Patch, Result, SandboxName, Settings, SettingsRequest, changed_labels,
};

/// Most that the names and values of a sandbox's variables may have together, bytes.
const ENV_MAX: usize = 1 << 20;
/// How long the end of a dead instance may be untold.
const LINGERS: Duration = Duration::from_secs(10);

impl SandboxObject {
    pub(super) async fn acquire(&mut self, name: SandboxName, reply: Reply<Acquired>) {
        self.name = Some(name);
        self.waiters.push(reply);
        // An instance whose end has not been told yet is not given out: its end is near, and
        // then the next one starts.
        let ending = matches!(self.machine.phase, Phase::Up { .. } | Phase::Closing { .. })
            && self.world.instances().get(&self.id).is_none_or(|i| !i.alive());
        if ending {
            if !std::mem::replace(&mut self.machine.wanted, true) {
                self.hasten();
            }
        } else {
            self.feed(Event::Wanted).await;
        }
    }

    /// A dead instance whose end is not told in time is ended for good, so that nobody waits
    /// for ever behind a supervisor that hangs.
    fn hasten(&self) {
        let Some(instance) = self.world.instances().get(&self.id).cloned() else { return };
        let id = self.id;
        tokio::spawn(async move {
            if tokio::time::timeout(LINGERS, instance.ended()).await.is_err()
                && let Err(error) = instance.stop(Duration::ZERO, "").await
            {
                tracing::error!(object = %id, %error, "a dead instance could not be ended");
            }
        });
    }

    pub(super) async fn put(
        &mut self,
        name: SandboxName,
        request: SettingsRequest,
    ) -> Result<bool> {
        if self.machine.finish == Some(Finish::Destroy) {
            return Err(errors::destroyed());
        }
        let world = self.world.clone();
        request.validate_maps()?;
        let base = match &self.row {
            Some(row) if !row.expired => &row.settings,
            _ => &world.defaults,
        };
        let settings = base.with(&request)?;
        if let Some(row) = self.row.as_ref().filter(|row| !row.expired) {
            let vars = request.env_vars.as_ref().is_none_or(|vars| *vars == row.env_vars);
            let labels = request.labels.as_ref().is_none_or(|labels| *labels == row.labels);
            let other = difference(&row.settings, &settings)
                .or((!vars).then_some("envVars"))
                .or((!labels).then_some("labels"));
            return match other {
                None => Ok(false),
                Some(field) => Err(Error::new(
                    ErrorCode::SettingsConflict,
                    format!("the sandbox exists with another {field}; PATCH changes settings"),
                )
                .with("field", field)),
            };
        }
        self.check(&request, &settings).await?;
        let vars = request.env_vars.unwrap_or_default();
        let labels = request.labels;
        let alarm = self.ttl_from_now(settings.time);
        self.last_activity = world.clock.instant();
        let now = world.clock.now_ms();
        if self.row.is_some() {
            // One that expired keeps its labels, unless the request names others.
            let labels = labels.as_ref();
            let updated =
                world.store.update_labelled(&self.id, &settings, &vars, labels, alarm).await;
            self.row = updated.map_err(errors::of_store)?;
            self.active();
        } else {
            let labels = labels.unwrap_or_default();
            let created =
                world.store.create_labelled(&name, &settings, &vars, &labels, now, alarm).await;
            self.row = Some(created.map_err(errors::of_store)?.1);
        }
        self.name = Some(name);
        self.arm(self.deadline());
        Ok(true)
    }

    pub(super) async fn patch(&mut self, patch: Patch) -> Result<()> {
        if self.machine.finish == Some(Finish::Destroy) {
            return Err(errors::destroyed());
        }
        let row = self.row.as_ref().ok_or_else(errors::not_found)?;
        patch.validate_maps()?;
        let settings = row.settings.with(&patch.settings)?;
        let mut vars = row.env_vars.clone();
        for (name, value) in patch.env_vars.clone().unwrap_or_default() {
            match value {
                Some(value) => drop(vars.insert(name, value)),
                None => drop(vars.remove(&name)),
            }
        }
        bounded(&vars, &row.env_vars)?;
        let labels = patch.labels.as_ref().map(|changes| changed_labels(&row.labels, changes));
        let labels = labels.transpose()?;
        let backstop = settings.time.inactivity_timeout_ms;
        let backstop = (backstop != row.settings.time.inactivity_timeout_ms).then_some(backstop);
        self.check(&patch.settings, &settings).await?;
        if self.row.as_ref().is_some_and(|row| row.expired) {
            // It is used again, or it would expire at once.
            self.active();
        }
        let alarm = match self.machine.finish {
            None => self.deadline_with(settings.time, false),
            Some(_) => self.armed,
        };
        let wall = alarm.map(|at| self.wall(at));
        let labels = labels.as_ref();
        let updated =
            self.world.store.update_labelled(&self.id, &settings, &vars, labels, wall).await;
        self.row = Some(updated.map_err(errors::of_store)?.ok_or_else(errors::not_found)?);
        self.arm(alarm);
        if let Some(ms) = backstop {
            match self.machine.phase {
                Phase::Up { .. } => self.set_backstop(ms).await,
                _ => self.backstop = Some(ms),
            }
        }
        Ok(())
    }

    /// Ends the instance if nobody needs it.
    pub(super) async fn reclaim(&mut self, reply: Reply<()>) {
        let busy = self.holds.count() > 0;
        let before = self.machine.phase.clone();
        self.feed(Event::Reclaim { busy }).await;
        if self.machine.phase == before {
            let busy = Error::new(ErrorCode::Unavailable, "the instance is not idle");
            let _ = reply.send(Err(busy));
        } else {
            self.stop_waiters.push(reply);
        }
    }

    /// Tells the running instance its new backstop.
    pub(super) async fn set_backstop(&self, ms: u64) {
        let instance = self.world.instances().get(&self.id).cloned();
        let Some(instance) = instance else { return };
        if let Err(error) = instance.set_inactivity_timeout(Duration::from_millis(ms)).await {
            tracing::warn!(object = %self.id, %error, "the backstop counts from the next start on");
        }
    }

    /// Refuses what this server, its engine or this mode does not offer, before it is stored.
    async fn check(&self, request: &SettingsRequest, settings: &Settings) -> Result<()> {
        let unsupported = |field: &str, why: &str| {
            Error::new(ErrorCode::NotSupported, format!("{field}: {why}")).with("field", field)
        };
        if settings.enable_internet {
            return Err(unsupported(
                "enableInternet",
                "instances have loopback only on this server",
            ));
        }
        let Capabilities { memory_limit, pids_limit, cpu_limit, disk_limit, .. } =
            self.world.engine.capabilities();
        for (field, asked, offered) in [
            ("memoryMib", request.memory_mib.is_some(), memory_limit),
            ("pids", request.pids.is_some(), pids_limit),
            ("vcpu", request.vcpu.is_some(), cpu_limit),
            ("diskMb", request.disk_mb.is_some(), disk_limit),
        ] {
            if asked && !offered {
                return Err(unsupported(
                    field,
                    "this server cannot enforce it (see sandkeep doctor)",
                ));
            }
        }
        if !self.world.engine.image_exists(&settings.image).await {
            let error = containers::Error::ImageNotFound(settings.image.clone());
            return Err(errors::of_engine(&error));
        }
        Ok(())
    }

    /// One point in the mailbox: what came before is refused or ended, what comes after the
    /// answer finds nothing.
    pub(super) async fn destroy(&mut self, reply: Reply<()>) {
        if self.row.is_none() {
            let _ = reply.send(Ok(()));
            return;
        }
        let now = self.world.clock.now_ms();
        if let Err(error) = self.world.store.begin_destroy(&self.id, now).await {
            let _ = reply.send(Err(errors::of_store(error)));
            return;
        }
        self.destroy_waiters.push(reply);
        self.turn_away(&errors::destroyed());
        self.abort.send_replace(true);
        self.feed(Event::Destroy).await;
    }

    pub(super) fn tell_verdict(
        &mut self,
        generation: u64,
        reply: oneshot::Sender<Option<Verdict>>,
    ) {
        let told = self.verdicts.iter().find(|(g, _)| *g == generation).map(|(_, v)| v.clone());
        if told.is_none() && self.machine.generation() == Some(generation) {
            self.verdict_waiters.entry(generation).or_default().push(reply);
        } else {
            let _ = reply.send(told);
        }
    }
}

/// The first field in which two settings differ.
fn difference(a: &Settings, b: &Settings) -> Option<&'static str> {
    let fields = [
        ("image", a.image != b.image),
        ("entrypoint", a.entrypoint != b.entrypoint),
        ("env", a.env != b.env),
        ("enableInternet", a.enable_internet != b.enable_internet),
        ("beforeStop", a.before_stop != b.before_stop),
        ("idleLimitMs", a.time.idle_limit_ms != b.time.idle_limit_ms),
        ("checkIntervalMs", a.time.check_interval_ms != b.time.check_interval_ms),
        ("inactivityTimeoutMs", a.time.inactivity_timeout_ms != b.time.inactivity_timeout_ms),
        ("idleTtlMs", a.time.idle_ttl_ms != b.time.idle_ttl_ms),
        ("memoryMib", a.limits.memory_mib != b.limits.memory_mib),
        ("vcpu", a.limits.vcpu != b.limits.vcpu),
        ("pids", a.limits.pids != b.limits.pids),
        ("diskMb", a.limits.disk_mb != b.limits.disk_mb),
    ];
    fields.into_iter().find(|(_, differs)| *differs).map(|(name, _)| name)
}

/// Refuses to let the variables of a sandbox grow beyond [`ENV_MAX`]: every command and every
/// execution has all of them.
fn bounded(vars: &BTreeMap<String, String>, before: &BTreeMap<String, String>) -> Result<()> {
    let bytes = |vars: &BTreeMap<String, String>| {
        vars.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    };
    let now = bytes(vars);
    if now <= ENV_MAX || now <= bytes(before) {
        return Ok(());
    }
    let rule =
        format!("the sandbox's variables would have {now} bytes together: at most {ENV_MAX}");
    Err(Error::invalid("envVars", rule))
}
