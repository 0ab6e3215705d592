//! One execution.

use super::Out;
use super::contexts::{Contexts, Slot};
use super::sink::Tell;
use crate::pack::PackError;
use crate::protocol::{End, Execute, Failure, FromWorker};
use crate::{Build, Execution, Instance, InstanceError, NewSnapshot, Outcome, Packs};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use types::CodeError;

/// Memory whose snapshot is taken without making room for others first, bytes.
const SMALL: u64 = 16 << 20;

/// The server, as one execution sees it.
pub(super) struct Server {
    /// Packs that come in answer to `Need`, and whether more follow.
    pub packs: mpsc::UnboundedReceiver<(Vec<OwnedFd>, bool)>,
    /// Whenever a part of a new pack was written.
    pub written: mpsc::UnboundedReceiver<()>,
    pub out: Out,
}

impl Server {
    /// Hands on a part of a new pack, and waits until it is written. Blocks.
    fn part(&mut self, id: u64, part: Vec<u8>) -> io::Result<()> {
        self.out.tell(&FromWorker::Part { id }, part);
        let written = tokio::task::block_in_place(|| self.written.blocking_recv());
        written.ok_or_else(|| io::Error::other("the server wants no more of the pack"))
    }
}

/// Runs it and says how it ended.
pub(super) async fn run(
    job: Execute,
    build: Arc<Build>,
    stdin: Vec<u8>,
    mut server: Server,
    contexts: Arc<Contexts>,
) {
    let id = job.id;
    let ended = match job.keep {
        true => {
            let slot = contexts.slot(&job.key);
            execute(&job, build, stdin, &mut server, &contexts, &slot).await
        }
        // Known to nobody else, and gone with this.
        false => execute(&job, build, stdin, &mut server, &contexts, &Slot::default()).await,
    };
    let out = server.out;
    match ended {
        Ok((end, pack)) => out.tell(&FromWorker::Done { id, end: Box::new(end) }, pack),
        Err(failure) => out.tell(&FromWorker::Failed { id, failure }, Vec::new()),
    }
}

async fn execute(
    job: &Execute,
    build: Arc<Build>,
    stdin: Vec<u8>,
    server: &mut Server,
    contexts: &Contexts,
    slot: &Slot,
) -> Result<(End, Vec<u8>), Failure> {
    let mut place = slot.instance.lock().await;
    let warm = place.take().filter(|warm| same(warm, &build, job));
    let making = Instant::now();
    let (mut instance, restored) = match warm {
        Some(warm) => (warm, None),
        None => {
            let made = make(job, build, server, contexts).await?;
            (made, job.snapshot.as_ref().map(|_| making.elapsed()))
        }
    };
    let execution = Execution {
        code: job.code.clone(),
        name: "<code>".to_owned(),
        env: job.env.clone(),
        cwd: job.cwd.clone(),
        stdin,
        timeout: Duration::from_millis(job.timeout_ms),
        memory_bytes: job.memory_bytes,
        output_max: job.output_max,
        room: job.room,
        kept: job.keep,
    };
    let tell = Tell { id: job.id, out: server.out.clone() };
    // Dropped here, the instance is gone with this: what stopped in the middle is not used again.
    let outcome = instance.execute(&execution, Box::new(tell)).await;
    let begun = Instant::now();
    let small = instance.private_bytes() < SMALL;
    let mut save = || instance.snapshot_in_parts(&mut |part| server.part(job.id, part));
    let saved = match job.keep && outcome.stopped.is_none() {
        // A small one takes no longer than a slice of a guest's time.
        true if small => Some(save()),
        true => Some(tokio::task::block_in_place(save)),
        false => None,
    };
    let snapshot_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut end = end(outcome, job.keep);
    end.restored_us = restored.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    let mut bytes = 0;
    let mut body = Vec::new();
    match saved {
        Some(Ok(NewSnapshot { snapshot, pack })) => {
            end.pack = pack.is_some();
            body = pack.unwrap_or_default();
            end.snapshot = Some(snapshot);
            end.snapshot_ms = snapshot_ms;
            bytes = instance.private_bytes();
            *place = Some(instance);
        }
        Some(Err(error)) => {
            end.rolled_back = true;
            end.error.get_or_insert_with(|| engine_error(&error));
        }
        None => {}
    }
    end.warm_bytes = contexts.settle(slot, bytes);
    Ok((end, body))
}

/// Whether a warm context is in the state that is asked for.
fn same(warm: &Instance, build: &Arc<Build>, job: &Execute) -> bool {
    let state = match (warm.snapshot_taken(), &job.snapshot) {
        (Some(has), Some(wanted)) => has.same_state(wanted),
        _ => false,
    };
    state && Arc::ptr_eq(warm.build(), build)
}

async fn make(
    job: &Execute,
    build: Arc<Build>,
    server: &mut Server,
    contexts: &Contexts,
) -> Result<Instance, Failure> {
    let places = contexts.places(&job.build)?;
    let clock = contexts.clock.clone();
    let made = match &job.snapshot {
        None => Instance::from_base(build, clock, places, job.memory_bytes).await,
        Some(snapshot) => {
            let files = match snapshot.packs.is_empty() {
                true => Vec::new(),
                false => fetch(job, snapshot.packs.len(), server).await?,
            };
            let packs = tokio::task::block_in_place(|| Packs::open(&build, snapshot, files));
            let packs = packs.map_err(failure)?;
            Instance::restore(build, clock, places, job.memory_bytes, snapshot, packs).await
        }
    };
    made.map_err(failure)
}

fn failure(error: InstanceError) -> Failure {
    match error {
        // It may be whole all the same.
        InstanceError::Pack { error: error @ PackError::Read(_), .. } => {
            Failure::Other { text: error.to_string() }
        }
        InstanceError::Pack { file, error } => Failure::Pack { file, what: error.to_string() },
        other => Failure::Other { text: other.to_string() },
    }
}

async fn fetch(job: &Execute, count: usize, server: &mut Server) -> Result<Vec<File>, Failure> {
    let gone = || Failure::Other { text: "the packs did not come".to_owned() };
    if !job.packs {
        server.out.tell(&FromWorker::Need { id: job.id }, Vec::new());
    }
    let mut files = Vec::new();
    loop {
        let (fds, more) = server.packs.recv().await.ok_or_else(gone)?;
        files.extend(fds.into_iter().map(File::from));
        if !more || files.len() > count {
            return Ok(files);
        }
    }
}

fn end(outcome: Outcome, keep: bool) -> End {
    End {
        result: outcome.result,
        error: outcome.error,
        cwd: outcome.cwd,
        usage: outcome.usage,
        truncated: outcome.truncated,
        rolled_back: keep && outcome.stopped.is_some(),
        snapshot: None,
        pack: false,
        snapshot_ms: 0,
        restored_us: None,
        room: outcome.room,
        warm_bytes: 0,
    }
}

fn engine_error(error: &InstanceError) -> CodeError {
    CodeError {
        name: "EngineError".to_owned(),
        message: error.to_string(),
        traceback: Vec::new(),
        line_number: None,
    }
}
