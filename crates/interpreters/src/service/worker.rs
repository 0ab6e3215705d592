//! The worker of one sandbox, whether or not a process runs for it just now.

use super::job::{Done, Event, Job, Saved};
use super::process::{InFlight, Lease, Process};
use super::{Error, PackDir, Shared};
use crate::Snapshot;
use crate::frames::FDS_MAX;
use crate::protocol::{End, Execute, Failure, FromWorker, ToWorker};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// What may come of an execution beside its output and its pack, bytes: displayed results.
const DISPLAYED: usize = 256 << 20;
/// How much longer than its time limit an execution may take: waiting for its turn, restoring,
/// saving. After that the worker is taken for stuck, and ended.
const GRACE: Duration = Duration::from_secs(120);

/// What a worker is made of.
pub struct WorkerSpec {
    /// The directory that is `/workspace`; opened as a place alone is enough.
    pub workspace: OwnedFd,
    /// First of 65 536 host ids; `None`: the caller's alone.
    pub ids: Option<u32>,
    /// Kept until the last process with these ids has been ended: what the ids are borrowed by.
    pub lease: Option<Box<dyn Any + Send + Sync>>,
}

/// The same, for as many processes as it takes.
pub(super) struct Place {
    pub workspace: OwnedFd,
    pub ids: Option<u32>,
    pub lease: Option<Lease>,
}

/// The worker of one sandbox. Clones are the same one; with the last one its process ends. A
/// process that died or was ended for others' sake is started again by the next execution.
#[derive(Clone)]
pub struct Worker(Arc<Inner>);

struct Inner {
    process: tokio::sync::Mutex<Option<Arc<Process>>>,
    now: std::sync::Mutex<Option<std::sync::Weak<Process>>>,
    shared: Arc<Shared>,
    place: Place,
}

impl Worker {
    pub(super) async fn start(shared: Arc<Shared>, spec: WorkerSpec) -> Result<Self, Error> {
        let WorkerSpec { workspace, ids, lease } = spec;
        let place = Place { workspace, ids, lease: lease.map(Lease::from) };
        let process = shared.process(&place).await?;
        let now = std::sync::Mutex::new(Some(Arc::downgrade(&process)));
        Ok(Self(Arc::new(Inner {
            process: tokio::sync::Mutex::new(Some(process)),
            now,
            shared,
            place,
        })))
    }

    /// Runs code. Events come while it runs; how many there may be is limited by what code may tell,
    /// so a slow reader holds up no code. Where nobody takes them they are dropped, and the code goes on. Dropping the future cancels the execution: the guest stops within 10 ms,
    /// and its context is as before.
    ///
    /// # Errors
    /// See [`Error`]; after each of them the context is as before.
    pub async fn execute(
        &self,
        mut job: Job,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<Done, Error> {
        let spare = job.spare.take();
        let Job { packs, stdin, snapshot, timeout, .. } = &job;
        let (packs, before, timeout) = (packs.clone(), snapshot.clone(), *timeout);
        let stdin = stdin.clone();
        let mut flight = self.begin(&job).await?;
        let budget = flight.process.clone();
        let message = ToWorker::Execute(Box::new(execute(flight.id, job)));
        let invalid = |e: std::io::Error| Error::Failed(e.to_string());
        flight.process.tell(&message, stdin, Vec::new()).map_err(invalid)?;
        let ran = tokio::time::timeout(
            timeout + GRACE,
            follow(&mut flight, &packs, spare, before, events),
        );
        let ended = match ran.await {
            Ok(ended) => ended,
            Err(_) => {
                tracing::warn!(pid = budget.pid(), "a worker is stuck, and is ended");
                budget.kill();
                Err(Error::WorkerDied)
            }
        };
        self.0.shared.trim(&flight.process);
        ended
    }

    /// Drops what is warm of a context.
    pub async fn forget(&self, key: &str) {
        if let Some(process) = &*self.0.process.lock().await {
            // A frame of a key can be made.
            let forget = ToWorker::Forget { key: key.to_owned() };
            let _ = process.tell(&forget, Vec::new(), Vec::new());
        }
    }

    /// Whether no process runs for it just now.
    pub fn is_dead(&self) -> bool {
        self.now().is_none_or(|process| process.is_dead())
    }

    /// Waits until the process that runs for it just now is gone.
    pub async fn dead(&self) {
        if let Some(process) = self.now() {
            process.dead().await;
        }
    }

    /// Process id of the process that runs for it just now.
    pub fn pid(&self) -> Option<i32> {
        self.now().filter(|process| !process.is_dead()).map(|process| process.pid())
    }

    fn now(&self) -> Option<Arc<Process>> {
        let now = self.0.now.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        now.as_ref().and_then(std::sync::Weak::upgrade)
    }

    /// Has a process that can run the job.
    async fn begin(&self, job: &Job) -> Result<InFlight, Error> {
        let budget = job.output_max.saturating_add(DISPLAYED);
        let mut place = self.0.process.lock().await;
        if let Some(process) = &*place
            && process.knows(&job.build)?
            && let Some(flight) = process.begin(budget)
        {
            return Ok(flight);
        }
        if !self.0.shared.has(&job.build)? {
            return Err(Error::BuildMissing { build: job.build.build() });
        }
        // What runs in an older one ends there, and it with that.
        let process = self.0.shared.process(&self.0.place).await?;
        *self.0.now.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            Some(Arc::downgrade(&process));
        let process = place.insert(process);
        if !process.knows(&job.build)? {
            return Err(Error::BuildMissing { build: job.build.build() });
        }
        process.begin(budget).ok_or(Error::WorkerDied)
    }
}

fn execute(id: u64, job: Job) -> Execute {
    Execute {
        id,
        key: job.key,
        build: job.build,
        snapshot: job.snapshot,
        code: job.code,
        env: job.env,
        cwd: job.cwd,
        timeout_ms: u64::try_from(job.timeout.as_millis()).unwrap_or(u64::MAX),
        memory_bytes: job.memory_bytes,
        output_max: job.output_max,
        keep: job.keep,
        room: job.room,
    }
}

/// From the first answer to the last.
async fn follow(
    flight: &mut InFlight,
    packs: &PackDir,
    spare: Option<String>,
    before: Option<Snapshot>,
    events: mpsc::UnboundedSender<Event>,
) -> Result<Done, Error> {
    loop {
        let (message, body) = flight.answers.recv().await.ok_or(Error::WorkerDied)?;
        // Who does not take events does not want them.
        match message {
            FromWorker::Output { stream, at, .. } => {
                let _ = events.send(Event::Output { stream, bytes: body, at });
            }
            FromWorker::Shown { result, .. } => {
                let _ = events.send(Event::Result(*result));
            }
            FromWorker::Need { id } => {
                let wanted = before.clone();
                hand_over(flight, id, packs.clone(), wanted).await?;
            }
            FromWorker::Done { end, .. } => {
                flight.process.set_warm_bytes(end.warm_bytes);
                return save(*end, body, packs, spare, before).await;
            }
            FromWorker::Failed { failure, .. } => {
                return Err(match failure {
                    Failure::UnknownBuild => Error::Failed("the engine is not mapped".to_owned()),
                    Failure::Pack { file, what } => Error::Pack { file, what },
                    Failure::Other { text } => Error::Failed(text),
                });
            }
            FromWorker::Ready | FromWorker::Broken { .. } => return Err(Error::WorkerDied),
        }
    }
}

/// Opens the packs of a snapshot and passes them on.
async fn hand_over(
    flight: &InFlight,
    id: u64,
    packs: PackDir,
    snapshot: Option<Snapshot>,
) -> Result<(), Error> {
    let opened = tokio::task::spawn_blocking(move || {
        let list = snapshot.map(|snapshot| snapshot.packs).unwrap_or_default();
        let open = |pack: &crate::PackRef| {
            packs
                .open(&pack.file)
                .map_err(|e| Error::Pack { file: pack.file.clone(), what: e.to_string() })
        };
        list.iter().map(open).collect::<Result<Vec<OwnedFd>, Error>>()
    });
    let mut fds = opened.await.map_err(|e| Error::Failed(e.to_string()))??;
    loop {
        let rest = fds.split_off(fds.len().min(FDS_MAX));
        let message = ToWorker::Packs { id, count: fds.len(), more: !rest.is_empty() };
        let told = flight.process.tell(&message, Vec::new(), fds);
        told.map_err(|e| Error::Failed(e.to_string()))?;
        if rest.is_empty() {
            return Ok(());
        }
        fds = rest;
    }
}

/// Writes what is to be kept, before anybody is told.
async fn save(
    end: End,
    body: Vec<u8>,
    packs: &PackDir,
    spare: Option<String>,
    before: Option<Snapshot>,
) -> Result<Done, Error> {
    let mut done = Done {
        result: end.result,
        error: end.error,
        cwd: end.cwd,
        usage: end.usage,
        truncated: end.truncated,
        rolled_back: end.rolled_back,
        saved: None,
        snapshot_ms: end.snapshot_ms,
        restored_us: end.restored_us,
        room: end.room,
    };
    let Some(mut snapshot) = end.snapshot else { return Ok(done) };
    let begun = std::time::Instant::now();
    // Names are ours: those of packs that were there before, and a fresh one for the new pack.
    let known = before.map(|before| before.packs).unwrap_or_default();
    let nonsense = || Error::Failed("the worker names packs that are not there".to_owned());
    let new = match end.pack {
        true => Some(snapshot.packs.pop().ok_or_else(nonsense)?),
        false => None,
    };
    for pack in &mut snapshot.packs {
        let same = known.iter().find(|known| known.hash == pack.hash);
        *pack = same.ok_or_else(nonsense)?.clone();
    }
    let mut written = None;
    if let Some(mut new) = new {
        new.bytes = body.len() as u64;
        let made = packs.write(snapshot.seq, body, spare).await.map_err(Error::Save)?;
        new.file = made.file().to_owned();
        snapshot.packs.push(new);
        written = Some(made);
    }
    done.snapshot_ms += u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    done.saved = Some(Saved { snapshot, pack: written });
    Ok(done)
}
