//! Code without a sandbox: an interpreter that is thrown away, with nothing in its workspace.

use super::execute::{CodeRun, Ended};
use super::job::{died, ended, job};
use super::{env, live, of_interpreters};
use crate::world::World;
use crate::{Sandboxes, errors, history};
use interpreters::engines::EngineBuild;
use interpreters::{Event, Job};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use types::{CodeRequest, Error, ErrorCode, Result};

impl Sandboxes {
    /// Begins an execution without a context. An error here means that nothing ran.
    pub(super) async fn begin_stateless(&self, request: CodeRequest) -> Result<CodeRun> {
        request.validate()?;
        if request.context_id.is_some() {
            let rule = "contextId says nothing here: contexts belong to sandboxes";
            return Err(Error::invalid("contextId", rule));
        }
        let code = &self.world.code;
        let binding = code.bindings.choose(request.binding.as_deref(), request.language)?;
        let build = code.engine(&binding.engine)?;
        let world = self.world.clone();
        Ok(CodeRun::spawn(|events, cancel| async move {
            (run(world, request, build, events, cancel).await, std::future::ready(()))
        }))
    }
}

async fn run(
    world: Arc<World>,
    request: CodeRequest,
    build: EngineBuild,
    events: mpsc::UnboundedSender<Event>,
    cancel: oneshot::Receiver<()>,
) -> Result<Ended> {
    tokio::select! {
        biased;
        _ = cancel => Err(Error::new(ErrorCode::Unavailable, "the client went away")),
        ended = execute(&world, &request, &build, events) => ended,
    }
}

async fn execute(
    world: &World,
    request: &CodeRequest,
    build: &EngineBuild,
    events: mpsc::UnboundedSender<Event>,
) -> Result<Ended> {
    let _place = world.code.stateless.acquire().await;
    let failed = |e: std::io::Error| errors::internal("making an empty workspace", e);
    let dir = tempfile::tempdir().map_err(failed)?;
    let open = std::fs::File::open(dir.path()).map_err(failed)?;
    let worker = live::start_worker(world, open.into()).await?;
    let job = Job {
        key: history::new_id(world.clock.now_ms()),
        env: env::merged(&BTreeMap::new(), &BTreeMap::new(), &request.env_vars),
        ..job(request, build)
    };
    let began = Instant::now();
    let done = match worker.execute(job, events).await {
        Err(interpreters::Error::WorkerDied) => died("/workspace"),
        done => done.map_err(|e| of_interpreters(e, None))?,
    };
    let mut all = ended(request, build.language, build, done.result, done.error, done.usage, began);
    all.truncated = done.truncated;
    Ok(all)
}
