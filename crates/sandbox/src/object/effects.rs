//! Doing what the machine says.

use super::{Acquired, Message, SandboxObject};
use crate::errors;
use crate::machine::{Effect, Event, Finish, Phase, Refusal, Verdict, Why};
use crate::stops;
use containers::{Instance, InstanceSpec};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::StopRecord;
use tracing::Instrument as _;
use types::{Cause, Error, ErrorCode, State};

/// How long a commit of a stop waits before it is tried again, at most.
const SLOWEST_RETRY: Duration = Duration::from_secs(2);
/// What could not be deleted is tried again after this long, then as alarms that fail are.
const RETRY_FINISH: Duration = Duration::from_secs(2);
/// How often a kill is tried. Each try is bounded by the engine.
const KILLS: u32 = 20;

impl SandboxObject {
    pub(super) async fn perform(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::CommitStart => return Some(self.commit_start().await),
            Effect::Launch { generation } => self.launch(generation),
            Effect::Grant => self.grant(),
            Effect::Refuse(refusal) => self.refuse_waiters(refusal),
            Effect::Prepare { generation, why } => self.prepare(generation, &why),
            Effect::Relent => self.relent().await,
            Effect::Kill { grace_ms, why } => self.kill(grace_ms, &why),
            Effect::Record { generation, stop } => self.record(generation, stop).await,
            Effect::AnswerStops => {
                for reply in self.stop_waiters.drain(..) {
                    let _ = reply.send(Ok(()));
                }
            }
            Effect::Finish(finish) => return Some(self.finish(finish).await),
        }
        None
    }

    /// Directory entry, record, generation and alarm in one commit, before anything is made.
    async fn commit_start(&mut self) -> Event {
        let name = self.name.clone().or_else(|| self.row.as_ref().map(|r| r.name.clone()));
        let Some(name) = name else {
            self.error = Some(errors::internal("a start", "an object without a name"));
            return Event::StartRefused;
        };
        let world = self.world.clone();
        let turn = std::mem::take(&mut self.turn);
        if let Some(error) = world.turns.before(&name.owner).filter(|_| !turn) {
            self.error = Some(error);
            return Event::StartRefused;
        }
        let settings = self.row.as_ref().map_or(&world.defaults, |row| &row.settings);
        if let Err(error) = world.admit(&self.id, &settings.limits) {
            self.error = Some(error);
            return Event::StartRefused;
        }
        let time = self.row.as_ref().map_or(world.defaults.time, |r| r.settings.time);
        let now = world.clock.now_ms();
        let at = world.clock.instant() + Duration::from_millis(time.check_interval_ms);
        let alarm = self.wall(at);
        match world.store.start(&name, &world.defaults, now, Some(alarm)).await {
            Ok(row) => {
                let generation = row.generation;
                self.row = Some(row);
                self.last_activity = world.clock.instant();
                self.arm(Some(at));
                Event::StartCommitted { generation }
            }
            Err(error) => {
                world.ledger.started(&self.id);
                self.error = Some(errors::of_store(error));
                Event::StartRefused
            }
        }
    }

    fn launch(&mut self, generation: u64) {
        let (world, id) = (self.world.clone(), self.id);
        let Some(row) = &self.row else { return };
        let settings = row.settings.clone();
        self.backstop = None;
        let spec = InstanceSpec {
            object: id,
            generation,
            image: settings.image,
            entrypoint: settings.entrypoint,
            env: settings.env,
            limits: settings.limits,
            hostname: row.name.id.to_string(),
            inactivity_timeout: Duration::from_millis(settings.time.inactivity_timeout_ms),
            enable_internet: settings.enable_internet,
        };
        // Not tied to the caller's request: a client that vanishes leaves nothing half made.
        let starter = std::mem::replace(&mut self.starter, tracing::Span::none());
        tokio::spawn(async move {
            let span = tracing::info_span!(
                target: "trace", parent: &starter, "start", generation, otel.status_code = tracing::field::Empty
            );
            drop(starter);
            let began = Instant::now();
            let engine = world.engine.clone();
            let start = async move { engine.start(spec).await };
            let started = tokio::spawn(start.instrument(span.clone())).await;
            let result = started.unwrap_or_else(|panic| {
                Err(containers::Error::Failed(format!("the engine failed: {panic}")))
            });
            span.record("otel.status_code", if result.is_ok() { "OK" } else { "ERROR" });
            drop(span);
            world.meters.started(result.is_ok(), began.elapsed().as_secs_f64());
            if let Ok(instance) = &result {
                world.instances().insert(id, instance.clone());
            }
            world.send(id, Message::Launched { generation, result });
        });
    }

    pub(super) async fn launched(
        &mut self,
        generation: u64,
        result: Result<Arc<dyn Instance>, containers::Error>,
    ) {
        self.world.ledger.started(&self.id);
        match result {
            Ok(instance) => {
                if self.machine.generation() != Some(generation) {
                    return self.discard(instance);
                }
                self.world.holds().insert(self.id, self.holds.clone());
                self.feed(Event::Launched { generation }).await;
                // Only now: its end must not come before its start.
                self.monitor(instance);
                if matches!(self.machine.phase, Phase::Up { .. }) {
                    self.rearm().await;
                    if let Some(ms) = self.backstop.take() {
                        self.set_backstop(ms).await;
                    }
                }
            }
            Err(error) => {
                let at_ms = self.world.clock.now_ms();
                self.error = Some(errors::of_engine(&error));
                let error = error.to_string();
                self.feed(Event::LaunchFailed { generation, error, at_ms }).await;
            }
        }
    }

    /// Ends an instance that nobody waits for: the copy that started it is gone.
    fn discard(&self, instance: Arc<dyn Instance>) {
        tracing::warn!(object = %self.id, generation = instance.generation(), "a stray instance is ended");
        let mut instances = self.world.instances();
        if instances.get(&self.id).is_some_and(|i| i.generation() == instance.generation()) {
            instances.remove(&self.id);
        }
        tokio::spawn(async move {
            if instance.stop(Duration::ZERO, "").await.is_ok() {
                instance.release().await;
            }
        });
    }

    fn grant(&mut self) {
        let Some(generation) = self.machine.generation() else { return };
        let instance = self.world.instances().get(&self.id).cloned();
        let env_vars = self.row.as_ref().map(|r| r.env_vars.clone()).unwrap_or_default();
        for reply in std::mem::take(&mut self.waiters) {
            let answer = match &instance {
                Some(instance) => Ok(Acquired {
                    instance: instance.clone(),
                    env_vars: env_vars.clone(),
                    hold: Some(self.hold(generation)),
                }),
                None => Err(errors::internal("a command", "the instance is not known")),
            };
            // A caller that went away gives its hold back at once.
            let _ = reply.send(answer);
        }
        self.active();
    }

    fn refuse_waiters(&mut self, refusal: Refusal) {
        let error = match &refusal {
            Refusal::Store | Refusal::Start => self.error.take().unwrap_or_else(|| {
                Error::new(ErrorCode::InstanceStartFailed, "the instance could not be started")
            }),
            Refusal::Stopped(why) => errors::stopped_by(why),
            Refusal::Destroyed => errors::destroyed(),
        };
        for reply in self.waiters.drain(..) {
            let _ = reply.send(Err(error.clone()));
        }
    }

    fn kill(&self, grace_ms: u64, why: &Why) {
        let Some(instance) = self.world.instances().get(&self.id).cloned() else { return };
        let note = serde_json::to_string(why).unwrap_or_default();
        let id = self.id;
        tokio::spawn(async move {
            let mut grace = Duration::from_millis(grace_ms);
            for attempt in 1..=KILLS {
                match instance.stop(grace, &note).await {
                    Ok(()) => return,
                    Err(error) => {
                        tracing::error!(object = %id, %error, attempt, "an instance could not be stopped");
                    }
                }
                grace = Duration::ZERO;
                tokio::time::sleep(Duration::from_secs(u64::from(attempt.min(10)))).await;
            }
        });
    }

    /// Stores the stop, writes the log line, lets the engine forget the instance. What cannot
    /// be stored is tried until it can: nothing else of this sandbox may happen before.
    async fn record(&mut self, generation: u64, verdict: Verdict) {
        let world = self.world.clone();
        let Some(row) = &self.row else { return };
        let stop = StopRecord {
            generation,
            reason: verdict.reason.clone(),
            exit_code: verdict.exit_code,
            cause: verdict.cause,
            stopped_at: verdict.at_ms,
        };
        let started_at = row.record.as_ref().map_or(verdict.at_ms, |r| r.started_at);
        let line = stops::line(&row.name, started_at, &stop);
        let payload = world.outbox.is_some().then_some(line.as_str());
        let time = row.settings.time;
        let alarm = (time.idle_ttl_ms > 0 && !row.expired)
            .then(|| self.last_activity + Duration::from_millis(time.idle_ttl_ms));
        let wall = alarm.map(|at| self.wall(at));
        let mut wait = Duration::from_millis(100);
        let recorded = loop {
            match world.store.stop(&self.id, &stop, payload, wall).await {
                Ok(recorded) => break recorded,
                // The instance keeps its exit file; the next start of the server records it.
                Err(store::Error::Closed) => return,
                Err(error) => {
                    tracing::error!(object = %self.id, %error, "a stop could not be stored; trying again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(SLOWEST_RETRY);
                }
            }
        };
        if recorded {
            world.meters.stopped(stop.cause);
            world.log.line(line);
            if let Some(outbox) = &world.outbox {
                outbox.notify_one();
            }
        } else {
            tracing::warn!(object = %self.id, generation, "a stop was recorded before");
        }
        self.arm(alarm);
        self.remember(&stop);
        world.holds().remove(&self.id);
        world.ledger.gone(&self.id);
        let instance = world.instances().remove(&self.id);
        if let Some(instance) = instance {
            instance.release().await;
        }
        self.verdicts.push_back((generation, verdict.clone()));
        while self.verdicts.len() > super::VERDICTS {
            self.verdicts.pop_front();
        }
        world.turns.freed();
        for reply in self.verdict_waiters.remove(&generation).unwrap_or_default() {
            let _ = reply.send(Some(verdict.clone()));
        }
    }

    /// Keeps the row in memory equal to the one in the store.
    fn remember(&mut self, stop: &StopRecord) {
        if let Some(record) = self.row.as_mut().and_then(|row| row.record.as_mut()) {
            record.state = State::Stopped;
            record.reason = Some(stop.reason.clone());
            record.exit_code = Some(stop.exit_code);
            record.cause = Some(stop.cause);
            record.stopped_at = Some(stop.stopped_at);
        }
    }

    /// Deletes what is kept. The workspace goes first, so that what a crash leaves is found
    /// again by the entry or the intent that still stands.
    async fn finish(&mut self, finish: Finish) -> Event {
        let done = self.try_finish(finish).await;
        if let Err(error) = &done {
            tracing::error!(object = %self.id, %error, "a sandbox could not be deleted");
            self.error = Some(error.clone());
            // Nobody may ask again: the alarm does.
            self.arm(Some(self.world.clock.instant() + RETRY_FINISH));
            self.turn_away(error);
        }
        if finish == Finish::Destroy {
            for reply in self.destroy_waiters.drain(..) {
                let _ = reply.send(done.clone());
            }
        }
        if done.is_ok() { Event::Finished } else { Event::FinishFailed }
    }

    async fn try_finish(&mut self, finish: Finish) -> types::Result<()> {
        let world = self.world.clone();
        self.end_activities().await;
        world.code.retire(&self.id);
        let purged = world.engine.purge(&self.id).await;
        purged.map_err(|e| errors::of_engine_work("deleting the workspace", &e))?;
        world.workspaces.forget(&self.id);
        match finish {
            Finish::Destroy => {
                world.store.finish_destroy(&self.id, None).await.map_err(errors::of_store)?;
                self.row = None;
                self.name = None;
            }
            Finish::Expire => {
                let now = world.clock.now_ms();
                world.store.expire(&self.id, None, now).await.map_err(errors::of_store)?;
                self.row = world.store.load(&self.id).await.map_err(errors::of_store)?;
                tracing::info!(object = %self.id, cause = Cause::Expired.as_str(), "a sandbox expired");
            }
        }
        self.begin_life();
        self.arm(None);
        world.turns.freed();
        Ok(())
    }
}
