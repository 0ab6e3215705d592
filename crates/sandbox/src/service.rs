//! What callers may ask of sandboxes.

use crate::busy::Busy;
use crate::code::{Code, CodeOptions};
use crate::errors;
use crate::exec::{Collected, ExecStream, Running};
use crate::machine::Why;
use crate::object::{Message, Reply, SandboxObject};
use crate::stops::{self, OnStop};
use crate::upkeep::Upkeep;
use crate::world::{Parts, World};
use crate::{info, reconcile};
use containers::Engine;
use objects::{Clock, Objects};
use std::sync::Arc;
use std::time::Duration;
use store::{SandboxRow, Store};
use tokio::sync::{Notify, oneshot};
use types::{
    Cause, EnvRequest, Error, ErrorCode, ExecRequest, Execution, Patch, Record, Result,
    SandboxInfo, SandboxName, Settings, SettingsRequest, Stop, StopRequest, TimeDefaults,
};

/// A stop or a destroy is answered after this long at the latest; it goes on by itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// How sandboxes are kept.
pub struct Options {
    /// The time settings of a sandbox that names none.
    pub time: TimeDefaults,
    /// A command to run at each stop.
    pub on_stop: Option<OnStop>,
    /// The clock.
    pub clock: Clock,
    /// How code is run.
    pub code: CodeOptions,
    /// What the operator allows.
    pub upkeep: Upkeep,
}

/// The sandboxes of this server. Cheap to clone.
#[derive(Clone)]
pub struct Sandboxes {
    pub(crate) world: Arc<World>,
    objects: Objects<SandboxObject>,
}

impl Sandboxes {
    /// Takes up what earlier servers left: running instances are adopted, their commands kept,
    /// missed stops recorded, destroys finished, overdue alarms fired.
    pub async fn open(store: Store, engine: Arc<dyn Engine>, options: Options) -> Result<Self> {
        options.time.validate()?;
        if let Err(error) = store.keep_quotas(options.upkeep.quotas.clone()).await {
            tracing::warn!(%error, "the quotas are in force and not kept");
        }
        let outbox = options.on_stop.as_ref().map(|_| Arc::new(Notify::new()));
        let made = {
            let (store, clock, outbox) = (store.clone(), options.clock.clone(), outbox.clone());
            let Options { time, code, upkeep, .. } = options;
            let (code, defaults) = (Code::new(code), Settings::defaults(time));
            let parts = Parts { store, engine, clock, defaults, outbox, code, upkeep };
            move |alarms| Arc::new(World::new(parts, alarms))
        };
        // The alarms wait until all instances are taken up: see `Objects::start`.
        let (objects, world) = Objects::<SandboxObject>::start(
            &store,
            &options.clock,
            objects::Options::default(),
            made,
        )
        .await
        .map_err(errors::of_store)?;
        let _ = world.objects.set(objects.downgrade());
        crate::code::take_up(&world).await?;
        reconcile::run(&world, &objects).await?;
        objects.begin();
        if let (Some(on_stop), Some(outbox)) = (options.on_stop, outbox) {
            tokio::spawn(stops::deliver(store.clone(), on_stop, outbox));
        }
        tokio::spawn(crate::sweep::run(store, options.clock, world.upkeep.retention));
        tokio::spawn(crate::quotas::count(Arc::downgrade(&world), world.used.some.clone()));
        tokio::spawn(crate::memory::watch(Arc::downgrade(&world)));
        tokio::spawn(crate::code::settle(Arc::downgrade(&world)));
        Ok(Self { world, objects })
    }

    /// What is kept in a data directory that no server uses, to be read: nothing is taken up,
    /// nothing happens by itself, and code and commands are refused. The limits in force are those
    /// of the store.
    pub fn at_rest(store: Store, engine: Arc<dyn Engine>, clock: Clock) -> Self {
        let (code, upkeep) = (Code::new(CodeOptions::default()), Upkeep::default());
        let defaults = Settings::defaults(TimeDefaults::default());
        let parts = Parts { store, engine, clock, defaults, outbox: None, code, upkeep };
        let made = |alarms| Arc::new(World::new(parts, alarms));
        let (objects, world) = Objects::at_rest(objects::Options::default(), made);
        Self { world, objects }
    }

    /// The engine of this server.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.world.engine
    }

    /// The clock of this server.
    pub fn clock(&self) -> &Clock {
        &self.world.clock
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    pub(crate) async fn ask<T>(
        &self,
        name: &SandboxName,
        message: impl FnOnce(Reply<T>) -> Message,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.objects.send(name.object_id(), message(reply));
        answer.await.unwrap_or_else(|_| Err(errors::internal("the request", "no answer")))
    }

    /// The same with an end: the work goes on when the caller has waited long enough.
    async fn ask_patiently(
        &self,
        name: &SandboxName,
        message: impl FnOnce(Reply<()>) -> Message,
        patience: Duration,
    ) -> Result<()> {
        match tokio::time::timeout(patience, self.ask(name, message)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::new(
                ErrorCode::Unavailable,
                "it is not done yet and goes on; ask again to wait for it",
            )),
        }
    }

    pub(crate) async fn row(&self, name: &SandboxName) -> Result<SandboxRow> {
        let row = self.world.store.load(&name.object_id()).await.map_err(errors::of_store)?;
        row.filter(|row| !row.destroying).ok_or_else(errors::not_found)
    }

    /// Begins an activity that needs no instance, making the sandbox, with the server's defaults,
    /// where needed; one that expired is used again. Errors: `SANDBOX_DESTROYED`, `STORAGE_FULL`.
    pub async fn busy(&self, name: &SandboxName) -> Result<Busy> {
        let name = name.clone();
        self.ask(&name.clone(), |reply| Message::Busy { name, make: true, reply }).await
    }

    /// The same for what only reads, which makes and revives nothing. Errors: as
    /// [`Sandboxes::busy`], `SANDBOX_NOT_FOUND`.
    pub async fn busy_if_there(&self, name: &SandboxName) -> Result<Busy> {
        let name = name.clone();
        self.ask(&name.clone(), |reply| Message::Busy { name, make: false, reply }).await
    }

    /// Makes a sandbox, or finds that it is the same. `true`: it is new.
    /// Errors: `VALIDATION_FAILED`, `SETTINGS_CONFLICT`, `IMAGE_NOT_FOUND`, `NOT_SUPPORTED`.
    pub async fn put(
        &self,
        name: &SandboxName,
        request: SettingsRequest,
    ) -> Result<(bool, SandboxInfo)> {
        let new = self.ask(name, |reply| Message::Put { name: name.clone(), request, reply });
        let new = new.await?;
        Ok((new, self.info(name).await?))
    }

    /// Changes settings. Errors: as [`Sandboxes::put`], `SANDBOX_NOT_FOUND`.
    pub async fn patch(&self, name: &SandboxName, patch: Patch) -> Result<SandboxInfo> {
        self.ask(name, |reply| Message::Patch { patch, reply }).await?;
        self.info(name).await
    }

    /// Sets or removes variables of the sandbox, which comes into being where needed. Errors:
    /// `VALIDATION_FAILED`, as [`Sandboxes::busy`].
    pub async fn set_env(&self, name: &SandboxName, request: EnvRequest) -> Result<()> {
        let patch = Patch { env_vars: Some(request.env_vars), ..Patch::default() };
        patch.validate_maps()?;
        let _busy = self.busy(name).await?;
        self.ask(name, |reply| Message::Patch { patch, reply }).await
    }

    /// All that is known of a sandbox. No activity. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn info(&self, name: &SandboxName) -> Result<SandboxInfo> {
        let row = self.row(name).await?;
        let workspace = info::workspace(self.world.engine.as_ref(), &row.object).await?;
        let contexts = self.context_infos(&row.object).await?;
        Ok(info::of(row, contexts, workspace, self.world.engine.capabilities()))
    }

    /// Its record; `None`: known and never started. No activity. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn record(&self, name: &SandboxName) -> Result<Option<Record>> {
        Ok(self.row(name).await?.record)
    }

    /// Runs a command to its end, starting an instance (and making the sandbox) where needed.
    /// Dropping the future kills the command's tree. `wait`: how long it waits for room where a
    /// limit keeps the instance from starting.
    pub async fn exec(
        &self,
        name: &SandboxName,
        request: ExecRequest,
        wait: Duration,
    ) -> Result<Collected> {
        self.run(name, request, wait).await?.collect().await
    }

    /// The same, event by event. An error here means that nothing ran.
    pub async fn exec_stream(
        &self,
        name: &SandboxName,
        request: ExecRequest,
        wait: Duration,
    ) -> Result<ExecStream> {
        Ok(ExecStream::new(self.run(name, request, wait).await?))
    }

    async fn run(
        &self,
        name: &SandboxName,
        request: ExecRequest,
        wait: Duration,
    ) -> Result<Running> {
        request.validate()?;
        let acquired = self.acquire(name, wait).await?;
        Running::start(self.world.clone(), name.clone(), acquired, request).await
    }

    /// Starts an instance where none runs, making the sandbox where needed; `wait` as for
    /// [`Sandboxes::exec`].
    pub async fn start(&self, name: &SandboxName, wait: Duration) -> Result<SandboxInfo> {
        drop(self.acquire(name, wait).await?);
        self.info(name).await
    }

    /// Stops the instance. Nothing to stop is fine. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn stop(&self, name: &SandboxName, request: StopRequest) -> Result<()> {
        let mut why = Why::of(Cause::Stopped);
        if let Some(reason) = request.reason {
            let length = reason.chars().count();
            if !(1..=200).contains(&length) || reason.contains('\0') {
                let rule = "reason must have 1 to 200 characters and no NUL";
                return Err(Error::invalid("reason", rule));
            }
            why.reason = reason;
        }
        let grace_ms = request.grace_ms;
        if grace_ms > 3_600_000 {
            return Err(Error::invalid("graceMs", "graceMs must be at most 3600000"));
        }
        // Whatever is wrong with it the stop itself will say.
        let settings = self.row(name).await.ok().and_then(|row| row.settings.before_stop);
        let before = settings.map_or(0, |before| before.timeout_ms);
        let patience = PATIENCE + Duration::from_millis(grace_ms.saturating_add(before));
        let message = |reply| Message::Stop { why, grace_ms, reply };
        self.ask_patiently(name, message, patience).await
    }

    /// Counts as activity. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn touch(&self, name: &SandboxName) -> Result<()> {
        self.ask(name, |reply| Message::Touch { reply }).await
    }

    /// Destroys the sandbox and removes its directory entry. Unknown ones are fine.
    pub async fn destroy(&self, name: &SandboxName) -> Result<()> {
        self.ask_patiently(name, |reply| Message::Destroy { reply }, PATIENCE).await
    }

    /// Its stops of the last 30 days, newest first, also after it was destroyed. Errors:
    /// `SANDBOX_NOT_FOUND` where there never was one.
    pub async fn stops(&self, name: &SandboxName) -> Result<Vec<Stop>> {
        let (store, object) = (&self.world.store, name.object_id());
        let kept = self.world.upkeep.retention.stops;
        let since = self.world.clock.now_ms().saturating_sub_unsigned(kept);
        let stops = store.stops(&object, since).await.map_err(errors::of_store)?;
        if stops.is_empty() && !store.known(&object).await.map_err(errors::of_store)? {
            return Err(errors::not_found());
        }
        Ok(stops)
    }

    /// Its latest commands, newest first, at most `limit`. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn executions(&self, name: &SandboxName, limit: u32) -> Result<Vec<Execution>> {
        let row = self.row(name).await?;
        // A command that was answered is in it. A full disk only makes it older.
        let _ = self.world.store.settle(&row.object).await;
        self.world.store.executions(&row.object, limit).await.map_err(errors::of_store)
    }

    /// The last MiB that main processes wrote. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn logs(&self, name: &SandboxName) -> Result<Vec<u8>> {
        let row = self.row(name).await?;
        let logs = self.world.engine.logs(&row.object).await;
        logs.map_err(|e| errors::of_engine_work("reading the logs", &e))
    }

    /// Waits until the stops so far are written to standard output.
    pub async fn flush(&self) {
        self.world.log.flush().await;
    }

    /// Stops every instance of the server, each with the reason `stopped`.
    pub async fn stop_all(&self) -> Result<()> {
        let running = self.world.store.running().await.map_err(errors::of_store)?;
        let stops = running.into_iter().map(|row| {
            let sandboxes = self.clone();
            tokio::spawn(async move { sandboxes.stop(&row.name, StopRequest::default()).await })
        });
        for stop in stops.collect::<Vec<_>>() {
            if let Ok(Err(error)) = stop.await {
                tracing::error!(%error, "a sandbox could not be stopped");
            }
        }
        Ok(())
    }
}
