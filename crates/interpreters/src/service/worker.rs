//! The worker of one sandbox, whether or not a process runs for it just now.

use super::job::{Done, Event, Job, Saved};
use super::packs::Begun;
use super::process::{InFlight, Lease, Process};
use super::{Error, PackDir, Shared};
use crate::engines::EngineBuild;
use crate::frames::FDS_MAX;
use crate::pack::PART;
use crate::protocol::{End, Execute, Failure, FromWorker, ToWorker};
use crate::{PackRef, Snapshot};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// What may come of an execution beside its output and its pack, bytes: displayed results.
const DISPLAYED: usize = 256 << 20;
/// Most packs of a snapshot: their sizes halve from one to the next, so that there are far fewer.
const PACKS_MAX: usize = 64;
/// No part of an execution takes longer than this, ms, whatever a worker says.
const LONGEST_MS: u64 = 24 * 60 * 60 * 1000;
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
    /// so a slow reader holds up no code. Where nobody takes them they are dropped, and the code goes
    /// on. Dropping the future cancels the execution: the guest stops within 10 ms, and its context is
    /// as before.
    ///
    /// # Errors
    /// See [`Error`]; after each of them the context is as before.
    pub async fn execute(
        &self,
        mut job: Job,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<Done, Error> {
        let kept = Kept {
            packs: job.packs.clone(),
            spare: job.spare.take(),
            before: job.snapshot.clone(),
            base: (job.build.wasm.clone(), job.build.base.clone()),
            // Compressed it is smaller, or hardly larger.
            most: job.memory_bytes + job.memory_bytes / 32 + (2 << 20),
        };
        let (stdin, timeout) = (std::mem::take(&mut job.stdin), job.timeout + GRACE);
        let (build, output_max) = (job.build.clone(), job.output_max);
        let key = job.key.clone();
        let mut request = Box::new(execute(job));
        for last in [false, true] {
            let mut flight = self.begin(&build, output_max).await?;
            let process = flight.process.clone();
            request.id = flight.id;
            // Until it has ended well.
            let cold = !process.not_warm(&key) && kept.has_packs();
            request.packs = cold;
            let message = ToWorker::Execute(request);
            let told = process.tell(&message, stdin.clone(), Vec::new());
            told.map_err(|e| Error::Failed(e.to_string()))?;
            if cold {
                hand_over(&flight, flight.id, &kept).await?;
            }
            let ran =
                tokio::time::timeout(timeout, follow(&mut flight, &kept, cold, &events)).await;
            if let Ok(Ok(Done { saved: Some(_), .. })) = &ran {
                process.note_warm(&key);
            }
            let ended = match ran {
                // Nothing ran: the files that the zygote mapped are not those that are there now.
                Ok(Err(Error::BuildMissing { .. })) if !last => {
                    self.0.shared.renew().await;
                    process.end();
                    let ToWorker::Execute(same) = message else { break };
                    request = same;
                    continue;
                }
                Ok(Err(Error::BuildMissing { .. })) => Err(self.0.shared.unusable(&build)),
                Ok(ended) => ended,
                Err(_) => {
                    tracing::warn!(pid = process.pid(), "a worker is stuck, and is ended");
                    process.kill();
                    Err(Error::WorkerDied)
                }
            };
            self.0.shared.trim(&process);
            return ended;
        }
        Err(self.0.shared.unusable(&build))
    }

    /// Drops what is warm of a context.
    pub async fn forget(&self, key: &str) {
        if let Some(process) = &*self.0.process.lock().await {
            process.not_warm(key);
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
    async fn begin(&self, build: &EngineBuild, output_max: usize) -> Result<InFlight, Error> {
        let budget = output_max.saturating_add(DISPLAYED);
        let mut place = self.0.process.lock().await;
        if let Some(process) = &*place {
            match process.knows(build) {
                Ok(false) => {}
                Ok(true) => {
                    if let Some(flight) = process.begin(budget) {
                        return Ok(flight);
                    }
                }
                // What was installed since may have mended it.
                Err(error) if process.is_of(&self.0.shared.zygote().await?) => return Err(error),
                Err(_) => {}
            }
        }
        if !self.0.shared.has(build)? {
            return Err(Error::BuildMissing { build: build.build() });
        }
        // What runs in an older one ends there, and it with that.
        let process = self.0.shared.process(&self.0.place).await?;
        *self.0.now.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            Some(Arc::downgrade(&process));
        let process = place.insert(process);
        if !process.knows(build)? {
            return Err(Error::BuildMissing { build: build.build() });
        }
        process.begin(budget).ok_or(Error::WorkerDied)
    }
}

/// What is told to a worker; it has no id yet.
fn execute(job: Job) -> Execute {
    Execute {
        id: 0,
        key: job.key,
        build: job.build,
        snapshot: job.snapshot,
        packs: false,
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

/// What the server alone knows of a context's packs.
struct Kept {
    packs: PackDir,
    spare: Option<String>,
    before: Option<Snapshot>,
    /// Hashes of module and base image.
    base: (String, String),
    /// Largest pack that is believed, bytes.
    most: u64,
}

impl Kept {
    fn has_packs(&self) -> bool {
        self.before.as_ref().is_some_and(|snapshot| !snapshot.packs.is_empty())
    }

    /// The packs that were there before.
    fn known(&self) -> &[PackRef] {
        self.before.as_ref().map_or(&[], |before| &before.packs)
    }

    /// The number of the next snapshot.
    fn seq(&self) -> u64 {
        self.before.as_ref().map_or(0, |before| before.seq).saturating_add(1)
    }

    /// Whether a snapshot may come after the one before: of the same base, with the next number, with
    /// the oldest packs of those that are known and at most one more.
    fn leads_to(&self, next: &Snapshot, new: bool) -> bool {
        let old = next.packs.len().checked_sub(usize::from(new));
        let old = old.filter(|old| *old <= self.known().len() && next.packs.len() <= PACKS_MAX);
        let old = old.map(|old| next.packs[..old].iter().zip(self.known()));
        (&next.wasm, &next.base) == (&self.base.0, &self.base.1)
            && next.seq == self.seq()
            && old.is_some_and(|mut old| old.all(|(pack, known)| pack.hash == known.hash))
    }
}

/// From the first answer to the last. `has_packs`: the worker was given the packs already.
async fn follow(
    flight: &mut InFlight,
    kept: &Kept,
    mut has_packs: bool,
    events: &mpsc::UnboundedSender<Event>,
) -> Result<Done, Error> {
    let mut begun = None;
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
                if std::mem::replace(&mut has_packs, true) {
                    return Err(Error::Failed("the worker asks for packs it has".to_owned()));
                }
                hand_over(flight, id, kept).await?;
            }
            FromWorker::Part { id } => {
                let bytes = body.len();
                begun = Some(part(begun, body, kept).await?);
                flight.believe(bytes);
                // A frame of a number can be made.
                let _ = flight.process.tell(&ToWorker::Written { id }, Vec::new(), Vec::new());
            }
            FromWorker::Done { end, .. } => {
                flight.process.set_warm_bytes(end.warm_bytes);
                return save(*end, begun, body, kept).await;
            }
            FromWorker::Failed { failure, .. } => {
                return Err(match failure {
                    Failure::UnknownBuild => Error::BuildMissing { build: String::new() },
                    Failure::Pack { file, what } => Error::Pack { file, what },
                    Failure::Other { text } => Error::Failed(text),
                });
            }
            FromWorker::Ready | FromWorker::Broken { .. } => return Err(Error::WorkerDied),
        }
    }
}

/// Opens the packs of a snapshot and passes them on.
async fn hand_over(flight: &InFlight, id: u64, kept: &Kept) -> Result<(), Error> {
    let list = kept.before.iter().flat_map(|snapshot| &snapshot.packs);
    let opened = kept.packs.open(list.map(|pack| pack.file.clone()).collect()).await;
    let mut fds = opened.map_err(|(file, e)| Error::Pack { file, what: e.to_string() })?;
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

/// Writes a part of a large pack.
async fn part(begun: Option<Begun>, part: Vec<u8>, kept: &Kept) -> Result<Begun, Error> {
    if part.len() != PART {
        return Err(Error::Failed("the worker hands over what is no part of a pack".to_owned()));
    }
    let written = kept.packs.write(begun, kept.seq(), part, kept.spare.clone()).await;
    let written = written.map_err(Error::Save)?;
    match written.written > kept.most {
        true => Err(Error::Failed("the worker has more to save than a memory holds".to_owned())),
        false => Ok(written),
    }
}

/// Writes what is to be kept, before anybody is told.
async fn save(end: End, begun: Option<Begun>, body: Vec<u8>, kept: &Kept) -> Result<Done, Error> {
    let mut done = Done {
        result: end.result,
        error: end.error,
        cwd: end.cwd,
        usage: end.usage,
        truncated: end.truncated,
        rolled_back: end.rolled_back,
        saved: None,
        snapshot_ms: end.snapshot_ms.min(LONGEST_MS),
        restored_us: end.restored_us.map(|us| us.min(1000 * LONGEST_MS)),
        room: end.room,
    };
    let Some(mut snapshot) = end.snapshot else { return Ok(done) };
    let saving = std::time::Instant::now();
    if !kept.leads_to(&snapshot, end.pack) {
        return Err(Error::Failed("the worker saved what does not follow from before".to_owned()));
    }
    let new = if end.pack { snapshot.packs.pop() } else { None };
    // Names are ours: those of packs that were there before, and a fresh one for the new pack.
    snapshot.packs = kept.known()[..snapshot.packs.len()].to_vec();
    let mut written = None;
    if let Some(mut new) = new {
        new.bytes = begun.as_ref().map_or(0, |begun| begun.written) + body.len() as u64;
        let made = kept.packs.finish(begun, snapshot.seq, body, kept.spare.clone()).await;
        let made = made.map_err(Error::Save)?;
        new.file = made.file().to_owned();
        snapshot.packs.push(new);
        written = Some(made);
    }
    done.snapshot_ms += u64::try_from(saving.elapsed().as_millis()).unwrap_or(u64::MAX);
    done.saved = Some(Saved { snapshot, pack: written });
    Ok(done)
}
