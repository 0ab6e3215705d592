//! One execution in a context: its turn, its run, its commit.

use super::job::{died, ended, job};
use super::live::{InUse, Live, Queue};
use super::{not_saved, of_interpreters, packs};
use crate::busy::Busy;
use crate::world::World;
use crate::{Sandboxes, errors};
use futures::FutureExt as _;
use interpreters::Error as WorkerError;
use interpreters::engines::EngineBuild;
use interpreters::wasi::Room;
use interpreters::{Done, Event, Job, NewPack, PackDir, PackRef, Saved};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use store::{ContextRow, ContextState, SnapshotRow};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use types::{CodeRequest, CodeResult, ContextRef, Error, ErrorCode, Result, SandboxName};

/// An execution under way. Dropping it cancels the code, unless it is being saved already.
pub(crate) struct CodeRun {
    pub(super) events: mpsc::UnboundedReceiver<Event>,
    pub(super) end: oneshot::Receiver<Result<Ended>>,
    _cancel: oneshot::Sender<()>,
}

/// An execution's end: the result without logs, and the value apart.
pub(super) struct Ended {
    pub result: CodeResult,
    pub value: Option<types::RichResult>,
    pub truncated: bool,
}

/// What one execution needs.
struct Execution {
    sandboxes: Sandboxes,
    busy: Busy,
    live: Arc<Live>,
    queue: Arc<Queue>,
    context: String,
    /// Its row, what it is made of, and which turn that is true for.
    read: Option<(ContextRow, EngineBuild, u64)>,
    request: CodeRequest,
    _in_use: InUse,
}

impl Sandboxes {
    /// Begins an execution: in the context that is named, else in the binding's default one. An
    /// error here means that nothing ran.
    pub(super) async fn begin_code(
        &self,
        name: &SandboxName,
        request: CodeRequest,
    ) -> Result<CodeRun> {
        request.validate()?;
        let code = &self.world.code;
        code.interpreters()?;
        let busy = match &request.context_id {
            // Where there is no sandbox there is no such context either.
            Some(_) => self.busy_if_there(name).await?,
            None => {
                code.bindings.choose(request.binding.as_deref(), request.language)?;
                self.busy(name).await?
            }
        };
        let (live, in_use) = code.enter(&busy)?;
        let mut turns = None;
        let row = match &request.context_id {
            Some(id) => {
                let known = match live.known_queue(id) {
                    Some(queue) => queue.at_rest(),
                    // No turn was taken yet.
                    None => Some((0, None)),
                };
                let (at, row) = known.map_or((None, None), |(turns, row)| (Some(turns), row));
                turns = at;
                let row = match row {
                    Some(row) => row,
                    None => self.find(busy.object(), id).await?,
                };
                live.prepare(&self.world).await?;
                row
            }
            None => {
                live.prepare(&self.world).await?;
                let (binding, language) = (request.binding.as_deref(), request.language);
                self.default_context(&busy, &live, binding, language).await?
            }
        };
        let build = self.build_of(&row)?;
        let queue = live.queue(&row.id);
        let sandboxes = self.clone();
        let context = row.id.clone();
        let read = turns.map(|turns| (row, build, turns));
        let execution =
            Execution { sandboxes, busy, live, queue, context, read, request, _in_use: in_use };
        Ok(CodeRun::spawn(|events, cancelled| execution.run(events, cancelled)))
    }
}

impl CodeRun {
    /// Runs `work` beside its caller: what must not be torn in two goes on without it. What it
    /// gives beside its end is done after that was told.
    pub(super) fn spawn<F, T>(
        work: impl FnOnce(mpsc::UnboundedSender<Event>, oneshot::Receiver<()>) -> F,
    ) -> Self
    where
        F: Future<Output = (Result<Ended>, T)> + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let (tell, events) = mpsc::unbounded_channel();
        let (cancel, cancelled) = oneshot::channel();
        let (told, end) = oneshot::channel();
        let work = AssertUnwindSafe(work(tell, cancelled)).catch_unwind();
        tokio::spawn(async move {
            let panic = |_| (Err(errors::internal("running code", "a panic")), None);
            let (ended, after) =
                work.await.map_or_else(panic, |(ended, after)| (ended, Some(after)));
            // A caller that went away is not told.
            let _ = told.send(ended);
            if let Some(after) = after {
                after.await;
            }
        });
        Self { events, end, _cancel: cancel }
    }
}

/// Why an execution that was begun is given up.
fn cancelled() -> Error {
    Error::new(ErrorCode::Unavailable, "the client went away")
}

impl Execution {
    async fn run(
        mut self,
        events: mpsc::UnboundedSender<Event>,
        cancel: oneshot::Receiver<()>,
    ) -> (Result<Ended>, impl Future<Output = ()> + Send) {
        let world = self.sandboxes.world.clone();
        let (read, mut old) = (self.read.take(), Vec::new());
        let (turn, ended) = {
            let mut stop = std::pin::pin!(self.stopped(cancel));
            let turn = tokio::select! {
                biased;
                error = &mut stop => Err(error),
                turn = self.queue.turn() => turn,
            };
            match turn {
                Ok(turn) => {
                    let ended = self.run_now(&world, read, events, stop, &mut old).await;
                    (Some(turn), ended)
                }
                Err(error) => (None, Err(error)),
            }
        };
        // The answer need not wait for this, and the next turn must: a rollback could name an old
        // pack again, whose checkpoint then goes.
        let untidy = turn.is_some() && self.queue.was_untidy();
        let tidy = async move {
            let (object, context) = (self.busy.object(), &self.context);
            if untidy {
                self.queue.forget_known();
                packs::sweep(&world, object, context).await;
            } else if !old.is_empty()
                && let Ok(dir) = self.live.packs(&world, &self.queue, context).await
            {
                packs::discard(&world, object, context, &self.queue, dir, old).await;
            }
            drop((turn, self));
        };
        (ended, tidy)
    }

    async fn run_now(
        &self,
        world: &Arc<World>,
        read: Option<(ContextRow, EngineBuild, u64)>,
        events: mpsc::UnboundedSender<Event>,
        stop: impl Future<Output = Error>,
        old: &mut Vec<PackRef>,
    ) -> Result<Ended> {
        // What was read before may have changed, where others had their turn since.
        let (row, build) = match read {
            Some((row, build, turns)) if self.queue.was_next(turns) => (row, build),
            _ => {
                let row = self.sandboxes.find(self.busy.object(), &self.context).await?;
                let build = self.sandboxes.build_of(&row)?;
                (row, build)
            }
        };
        // Known again when this has ended well.
        self.queue.set_row(None);
        let began = Instant::now();
        let spare = self.queue.take_spare();
        let outcome = tokio::select! {
            biased;
            error = stop => Err(error),
            outcome = self.execute(world, &row, &build, spare.clone(), events) => outcome,
        };
        if let Some(spare) = spare {
            match &outcome {
                Ok(Done { saved: Some(Saved { pack: Some(_), .. }), .. }) => {}
                Ok(_) => drop(self.queue.set_spare(spare)),
                // What became of it nobody knows.
                Err(_) => self.queue.make_untidy(),
            }
        }
        if let Ok(Done { restored_us: Some(us), .. }) = &outcome {
            world.meters.restored(&row.binding, *us as f64 / 1e6);
        }
        let ended = match outcome {
            Ok(done) => self.commit(world, &row, &build, done, began, old).await,
            Err(error) => {
                self.note_unsaved(world, &error).await;
                Err(error)
            }
        };
        let saved = ended.as_ref().map(|ended| ended.result.context.as_ref()?.snapshot_ms);
        let result = match &saved {
            Ok(Some(_)) => "saved",
            Ok(None) => "rolled_back",
            Err(_) => "failed",
        };
        world.meters.executed(result, began.elapsed().as_secs_f64(), saved.ok().flatten());
        ended
    }

    /// Waits for a reason to give it up.
    async fn stopped(&self, cancel: oneshot::Receiver<()>) -> Error {
        tokio::select! {
            biased;
            () = self.busy.aborted() => errors::destroyed(),
            () = self.queue.deleted() => super::no_context(&self.context),
            _ = cancel => cancelled(),
        }
    }

    /// Runs it in the sandbox's worker.
    async fn execute(
        &self,
        world: &Arc<World>,
        row: &ContextRow,
        build: &EngineBuild,
        spare: Option<String>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<Done> {
        let workspace = self.live.workspace(world).await?;
        world.bound(workspace, &self.busy).await?;
        let room = match workspace.room_now() {
            Some(room) => room,
            None => {
                let workspace = workspace.clone();
                let room = tokio::task::spawn_blocking(move || workspace.room()).await;
                let room = room.map_err(|e| errors::internal("counting the workspace", e))?;
                room.map_err(|e| errors::internal("counting the workspace", e))?
            }
        };
        let (packs, place) = PackDir::later();
        let directory = async {
            let directory = self.live.packs(world, &self.queue, &row.id).await?;
            let own = directory.try_clone().map_err(|e| errors::internal("running code", e))?;
            place.is(own);
            Ok::<_, Error>(())
        };
        let worker = self.live.worker(world).await?;
        let job = Job {
            key: row.id.clone(),
            build: build.clone(),
            snapshot: row.snapshot.as_ref().map(packs::manifest).transpose()?,
            packs,
            spare,
            env: super::env::merged(self.busy.env_vars(), &row.env_vars, &self.request.env_vars),
            cwd: row.cwd.clone(),
            room: Room::of(room.bytes, room.entries).as_of(workspace.counted()),
            keep: true,
            ..job(&self.request, build)
        };
        let writing = workspace.writing(room);
        // A context that was never saved runs while its directory is made.
        let (made, done) = tokio::join!(directory, worker.execute(job, events));
        match (made, &done) {
            // Nothing ran.
            (Err(error), Err(WorkerError::Pack { .. })) => return Err(error),
            (Err(error), Err(WorkerError::Save(_))) => return Err(super::not_saved(&error)),
            _ => {}
        }
        let done = match done {
            Err(WorkerError::WorkerDied) => return Ok(died(&row.cwd)),
            done => done.map_err(|e| of_interpreters(e, Some(&row.id)))?,
        };
        // The next execution need not count to know of it.
        let Room { bytes, entries, refused, .. } = done.room;
        writing.done(workspace::Room { bytes, entries });
        if refused {
            let (busy, own) = (&self.busy, workspace.limits());
            let told = |what, limit: u64, left| {
                let current = limit.saturating_sub(left);
                world.store.note_refusal(busy.owner(), Some(busy.id()), what, limit, current);
            };
            if entries == 0 {
                told("workspaceEntries", own.entries, entries);
            } else if !workspace.is_bound() {
                told("workspaceBytes", own.bytes, bytes);
            } else if let Some(error) = world.bytes_refused(busy.owner()).await {
                world.store.note_quota(busy.owner(), Some(busy.id()), &error);
            }
        }
        Ok(done)
    }

    /// Saves what it left, all or nothing, and makes its answer. `old`: packs that are not needed
    /// for it any more.
    async fn commit(
        &self,
        world: &World,
        row: &ContextRow,
        build: &EngineBuild,
        done: Done,
        began: Instant,
        old: &mut Vec<PackRef>,
    ) -> Result<Ended> {
        let now = world.clock.now_ms();
        // Written with what is saved.
        world.store.touch(self.busy.object(), now);
        let mut state = ContextState {
            version: build.engine.clone(),
            cwd: row.cwd.clone(),
            executions: row.executions,
            snapshot: row.snapshot.clone(),
            last_used: now,
        };
        let Done { result, error, cwd, usage, truncated, rolled_back, saved, snapshot_ms, .. } =
            done;
        let mut took = None;
        if rolled_back {
            self.note(world, now, false).await;
        } else {
            let committing = Instant::now();
            (state.cwd, state.executions) = (cwd, row.executions + 1);
            let mut pack = None;
            let mut replaced = Vec::new();
            // Where nothing changed the memory that is kept is the true one.
            if let Some(saved) = saved {
                let Saved { snapshot, pack: new } = saved;
                let manifest = serde_json::to_string(&snapshot)
                    .map_err(|e| errors::internal("writing a snapshot", e))?;
                if let Some(before) = row.snapshot.as_ref().map(packs::manifest).transpose()? {
                    replaced = before.packs;
                    replaced.retain(|old| snapshot.packs.iter().all(|pack| pack.file != old.file));
                }
                let hash = snapshot.packs.last().map(|pack| pack.hash.clone());
                let (wasm, base) = (snapshot.wasm, snapshot.base);
                state.snapshot = Some(SnapshotRow { wasm, base, taken_at: now, manifest });
                pack = new.zip(hash);
            }
            self.save(world, &state, pack).await?;
            *old = replaced;
            self.queue.set_row(Some(ContextRow {
                version: state.version.clone(),
                cwd: state.cwd.clone(),
                executions: state.executions,
                snapshot: state.snapshot.clone(),
                last_used: row.last_used.max(now),
                stale: false,
                ..row.clone()
            }));
            took = Some(snapshot_ms + committing.elapsed().as_millis() as u64);
        }
        let ttl = self.busy.settings().time.idle_ttl_ms;
        let context = ContextRef {
            id: row.id.clone(),
            cwd: state.cwd,
            executions: state.executions,
            snapshot_ms: took,
            expires_at: (ttl > 0).then(|| now + ttl as i64),
        };
        let mut result = ended(&self.request, row.language, build, result, error, usage, began);
        result.truncated = truncated;
        result.result.execution_count = Some(state.executions);
        result.result.context = Some(context);
        result.result.rolled_back = rolled_back;
        Ok(result)
    }

    /// Stores the context's new state; from then on its new pack stays.
    async fn save(
        &self,
        world: &World,
        state: &ContextState,
        pack: Option<(NewPack, String)>,
    ) -> Result<()> {
        let (object, context, fresh) = (self.busy.object(), &self.context, &world.code.fresh);
        let (mut pack, hash) = pack.unzip();
        let written = match pack.as_mut().zip(hash) {
            Some((pack, hash)) => Some(fresh.written(pack, hash).await?),
            None => None,
        };
        // Whether it is noted to be synced later.
        let later = written.as_ref().filter(|written| written.bytes.is_some());
        let later = later.map(|w| fresh.pack(*object, context, &w.file, &w.hash));
        let keep = || {
            let dir = pack.and_then(NewPack::keep);
            if let Some((pack, dir)) = later.zip(dir) {
                fresh.note(pack, dir);
            }
        };
        match world.store.save_context(object, context, state, written).await {
            Ok(true) => {
                keep();
                Ok(())
            }
            Ok(false) if self.busy.is_aborted() => Err(errors::destroyed()),
            Ok(false) => Err(super::no_context(&self.context)),
            Err(error @ store::Error::Full) => {
                let error = not_saved(&error).with("contextId", self.context.clone());
                self.note_unsaved(world, &error).await;
                Err(error)
            }
            Err(error) => {
                // It may be stored all the same; a pack too many is found later.
                keep();
                Err(errors::of_store(error))
            }
        }
    }

    async fn note_unsaved(&self, world: &World, error: &Error) {
        if error.code == ErrorCode::ExecutionNotSaved {
            self.note(world, world.clock.now_ms(), true).await;
            // Its memory is ahead of what is kept.
            self.live.forget(&self.context).await;
        }
    }

    async fn note(&self, world: &World, at_ms: i64, stale: bool) {
        let noted = world.store.context_unsaved(self.busy.object(), &self.context, at_ms, stale);
        if let Err(error) = noted.await {
            tracing::warn!(context = self.context, %error, "an execution was not noted");
        }
    }
}
