//! Making, finding, copying and deleting contexts.

use super::live::{InUse, Live, Queue};
use super::{Binding, answer, env, no_context, of_interpreters, packs};
use crate::busy::Busy;
use crate::{errors, history};
use interpreters::engines::EngineBuild;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::ContextRow;
use tokio::sync::OwnedMutexGuard;
use types::{
    CONTEXTS_MAX, ContextInfo, ContextRequest, EngineInfo, Error, ErrorCode, Language, ObjectId,
    Result, SandboxName, check_code_env,
};

/// A context whose turn it is, for something else than an execution.
pub(super) struct Turn {
    pub row: ContextRow,
    pub live: Arc<Live>,
    /// Kept, so that the turn below is the one that others wait for.
    _queue: Arc<Queue>,
    pub busy: Busy,
    _in_use: InUse,
    _turn: OwnedMutexGuard<()>,
}

impl crate::Sandboxes {
    /// Makes a context, and the sandbox where it is not there. Errors: `VALIDATION_FAILED`,
    /// `ENGINE_NOT_INSTALLED`, `TOO_MANY_CONTEXTS`, as [`crate::Sandboxes::busy`].
    pub async fn create_context(
        &self,
        name: &SandboxName,
        request: ContextRequest,
    ) -> Result<ContextInfo> {
        let bindings = &self.world.code.bindings;
        let binding = bindings.choose(request.binding.as_deref(), request.language)?.clone();
        let cwd = env::directory(request.cwd.as_deref())?;
        check_code_env("envVars", request.env_vars.iter().map(|(k, v)| (k, Some(v))))?;
        // Before the sandbox comes into being for nothing.
        let row = self.new_context(binding, cwd, request.env_vars)?;
        let busy = Arc::new(self.busy(name).await?);
        // Most contexts are made to run something at once: their sandbox's directories are made
        // while the disk has this one.
        let (world, held) = (self.world.clone(), busy.clone());
        tokio::spawn(async move {
            // What goes wrong is told to whoever needs them.
            let _ = world.engine.make_workspace(held.object()).await;
            let _ = world.engine.contexts_dir(held.object()).await;
        });
        self.add_context(&busy, &row).await?;
        answer::context(row)
    }

    /// A context that ran nothing yet. Errors: `ENGINE_NOT_INSTALLED`.
    fn new_context(
        &self,
        binding: Binding,
        cwd: String,
        env_vars: BTreeMap<String, String>,
    ) -> Result<ContextRow> {
        let build = self.world.code.engine(&binding.engine)?;
        let now = self.world.clock.now_ms();
        Ok(ContextRow {
            id: history::new_id(now),
            binding: binding.name,
            language: build.language,
            engine: binding.engine,
            version: build.engine,
            cwd,
            env_vars,
            created_at: now,
            last_used: now,
            executions: 0,
            stale: false,
            snapshot: None,
        })
    }

    async fn add_context(&self, busy: &Busy, row: &ContextRow) -> Result<()> {
        let (store, object) = (&self.world.store, busy.object());
        let limit = CONTEXTS_MAX as u32;
        match store.create_context(object, busy.created_at(), row, limit).await {
            Ok(()) => Ok(()),
            Err(store::Error::TooMany { limit }) => Err(Error::new(
                ErrorCode::TooManyContexts,
                format!("the sandbox has {limit} code contexts, and more are not allowed"),
            )
            .with("limit", limit)),
            // A destroy came first.
            Err(store::Error::Missing) => Err(errors::destroyed()),
            Err(other) => Err(errors::of_store(other)),
        }
    }

    /// The contexts of a sandbox, oldest first. No activity. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn contexts(&self, name: &SandboxName) -> Result<Vec<ContextInfo>> {
        let row = self.row(name).await?;
        self.context_infos(&row.object).await
    }

    pub(crate) async fn context_infos(&self, object: &ObjectId) -> Result<Vec<ContextInfo>> {
        let rows = self.world.store.contexts(object).await.map_err(errors::of_store)?;
        rows.into_iter().map(answer::context).collect()
    }

    /// One context. No activity. Errors: `SANDBOX_NOT_FOUND`, `CONTEXT_NOT_FOUND`.
    pub async fn context(&self, name: &SandboxName, id: &str) -> Result<ContextInfo> {
        let row = self.row(name).await?;
        answer::context(self.find(&row.object, id).await?)
    }

    pub(super) async fn find(&self, object: &ObjectId, id: &str) -> Result<ContextRow> {
        let row = self.world.store.context(object, id).await.map_err(errors::of_store)?;
        row.ok_or_else(|| no_context(id))
    }

    /// The context that runs code for a binding: the oldest of it, made where there is none.
    pub(super) async fn default_context(
        &self,
        busy: &Busy,
        live: &Live,
        name: Option<&str>,
        language: Option<Language>,
    ) -> Result<ContextRow> {
        let binding = self.world.code.bindings.choose(name, language)?.clone();
        if let Some(row) = self.oldest(busy.object(), &binding.name).await? {
            return Ok(row);
        }
        let _making = live.making.lock().await;
        if let Some(row) = self.oldest(busy.object(), &binding.name).await? {
            return Ok(row);
        }
        let row = self.new_context(binding, "/workspace".to_owned(), BTreeMap::new())?;
        self.add_context(busy, &row).await?;
        Ok(row)
    }

    async fn oldest(&self, object: &ObjectId, binding: &str) -> Result<Option<ContextRow>> {
        let rows = self.world.store.contexts(object).await.map_err(errors::of_store)?;
        Ok(rows.into_iter().find(|row| row.binding == binding))
    }

    /// Deletes a context with its memory and checkpoints; an execution of it is cancelled.
    /// Errors: `SANDBOX_NOT_FOUND`, `CONTEXT_NOT_FOUND`.
    pub async fn delete_context(&self, name: &SandboxName, id: &str) -> Result<()> {
        let busy = self.busy_if_there(name).await?;
        let (live, in_use) = self.world.code.live(&self.world, &busy).await?;
        let queue = live.queue(id);
        let store = &self.world.store;
        if !store.delete_context(busy.object(), id).await.map_err(errors::of_store)? {
            live.remove_queue(id);
            return Err(no_context(id));
        }
        queue.delete();
        let (world, id) = (self.world.clone(), id.to_owned());
        // Whoever goes away does not leave its files behind.
        let clean = tokio::spawn(async move {
            if let Ok(_turn) = queue.turn().await {
                live.forget(&id).await;
                if let Err(error) = packs::remove(&world, busy.object(), &id).await {
                    tracing::warn!(context = id, %error, "a deleted context's files stay for now");
                }
            }
            live.remove_queue(&id);
            drop((in_use, busy));
        });
        let _ = clean.await;
        Ok(())
    }

    /// Waits for a context's turn. Errors: `SANDBOX_NOT_FOUND`, `CONTEXT_NOT_FOUND`,
    /// `SANDBOX_DESTROYED`, `TOO_MANY_REQUESTS`.
    pub(super) async fn turn(&self, name: &SandboxName, id: &str) -> Result<Turn> {
        let busy = self.busy_if_there(name).await?;
        let (live, in_use) = self.world.code.live(&self.world, &busy).await?;
        // Before anything waits for it: an unknown one is told at once.
        self.find(busy.object(), id).await?;
        let queue = live.queue(id);
        let turn = tokio::select! {
            biased;
            () = busy.aborted() => return Err(errors::destroyed()),
            () = queue.deleted() => return Err(no_context(id)),
            turn = queue.turn() => turn?,
        };
        queue.forget_known();
        let row = self.find(busy.object(), id).await?;
        Ok(Turn { row, live, _queue: queue, busy, _in_use: in_use, _turn: turn })
    }

    /// Makes a second context with the same memory, working directory and variables. Errors: as
    /// [`crate::Sandboxes::context`], `TOO_MANY_CONTEXTS`.
    pub async fn fork_context(&self, name: &SandboxName, id: &str) -> Result<ContextInfo> {
        let turn = self.turn(name, id).await?;
        let now = self.world.clock.now_ms();
        let mut row = turn.row.clone();
        (row.id, row.created_at, row.last_used) = (history::new_id(now), now, now);
        let object = *turn.busy.object();
        let made = async {
            if let Some(snapshot) = &row.snapshot {
                let manifest = packs::manifest(snapshot)?;
                packs::share(&self.world, &object, id, &row.id, &manifest).await?;
            }
            self.add_context(&turn.busy, &row).await
        };
        if let Err(error) = made.await {
            if let Err(error) = packs::remove(&self.world, &object, &row.id).await {
                tracing::warn!(context = row.id, %error, "a left directory stays for now");
            }
            return Err(error);
        }
        answer::context(row)
    }

    /// The builds of engines that are installed, or that contexts of any owner need.
    pub async fn engines(&self) -> Result<Vec<EngineInfo>> {
        let needed = self.world.store.builds_in_use().await.map_err(errors::of_store)?;
        let current = match &self.world.code.interpreters {
            Some(interpreters) => interpreters.engines(),
            None => Vec::new(),
        };
        let of = |build: Option<&EngineBuild>, (wasm, base): (String, String), in_use| EngineInfo {
            name: build.map(|build| build.name.clone()),
            engine: build.map(|build| build.engine.clone()),
            wasm,
            base,
            installed: build.is_some(),
            in_use,
        };
        let mut all = Vec::new();
        for build in &current {
            let hashes = (build.wasm.clone(), build.base.clone());
            let in_use = needed.contains(&hashes);
            all.push(of(Some(build), hashes, in_use));
        }
        for hashes in needed {
            let listed = |e: &EngineInfo| (&e.wasm, &e.base) == (&hashes.0, &hashes.1);
            if !all.iter().any(listed) {
                let interpreters = self.world.code.interpreters.as_ref();
                let old = interpreters.and_then(|i| i.find_build(&hashes.0, &hashes.1));
                all.push(of(old.as_ref(), hashes, true));
            }
        }
        Ok(all)
    }

    /// The build that runs a context: the one of its memory, else the newest of its engine.
    /// Errors: `ENGINE_NOT_INSTALLED`, `ENGINE_CHANGED`.
    pub(super) fn build_of(&self, row: &ContextRow) -> Result<EngineBuild> {
        let code = &self.world.code;
        let interpreters = code.interpreters()?;
        let newest =
            || interpreters.find(&row.engine).map_err(|e| of_interpreters(e, Some(&row.id)));
        let Some(snapshot) = &row.snapshot else { return newest() };
        if let Some(build) = interpreters.find_build(&snapshot.wasm, &snapshot.base) {
            let sound = interpreters.is_sound(&build);
            return sound.map(|()| build).map_err(|e| of_interpreters(e, Some(&row.id)));
        }
        let newest = newest()?;
        let message = format!(
            "the memory of the context belongs to another build of {} than the one that is \
             installed ({}); it is kept, and can be used where that build is there again",
            row.engine, newest.engine
        );
        Err(Error::new(ErrorCode::EngineChanged, message)
            .with("contextId", row.id.clone())
            .with("engine", row.engine.clone())
            .with("wasm", snapshot.wasm.clone())
            .with("base", snapshot.base.clone())
            .with("installed", newest.build()))
    }
}
