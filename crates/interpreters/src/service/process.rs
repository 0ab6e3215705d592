//! One worker process, and the executions that are in flight in it.

use super::Error;
use super::worker::Place;
use super::zygote::{Forked, Zygote};
use crate::engines::EngineBuild;
use crate::frames::{Frame, Reader, Sender};
use crate::protocol::{FromWorker, ToWorker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};

/// How long a worker may take from the fork to its first word.
const READY_MAX: Duration = Duration::from_secs(60);

/// What a displayed result takes beside its text, bytes; there are a thousand at most.
const SHOWN: usize = 1 << 10;

/// A worker process. Dropped or dead, it runs nothing any more.
pub(super) struct Process {
    pid: i32,
    /// Taken at the end, with the lease.
    pidfd: Option<OwnedFd>,
    lease: Option<Lease>,
    /// Workers die with their zygote.
    zygote: Arc<Zygote>,
    out: Sender,
    state: Mutex<State>,
    next: AtomicU64,
    warm: AtomicU64,
    dead: watch::Sender<bool>,
    doomed: AtomicBool,
}

/// What a process borrows: it goes back when the process has ended.
pub(super) type Lease = Arc<dyn Any + Send + Sync>;

struct State {
    jobs: HashMap<u64, Answers>,
    /// Contexts that are warm there, as far as is known: it drops some by itself.
    warm: HashSet<String>,
    /// The last execution began or ended then.
    used: Instant,
    /// No more jobs are taken.
    closed: bool,
}

/// Where the answers of an execution go, and how many bytes of them are still believed.
struct Answers {
    to: mpsc::UnboundedSender<(FromWorker, Vec<u8>)>,
    budget: usize,
}

/// An execution in flight; dropping it cancels it.
pub(super) struct InFlight {
    pub id: u64,
    pub answers: mpsc::UnboundedReceiver<(FromWorker, Vec<u8>)>,
    pub process: Arc<Process>,
}

impl Process {
    /// Forks one and waits until it is ready. [`Error::WorkerDied`]: it ended before it was.
    pub async fn start(zygote: &Arc<Zygote>, place: &Place) -> Result<Arc<Self>, Error> {
        let failed = |e: std::io::Error| Error::Start(format!("make a socket: {e}"));
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        let workspace = place.workspace.try_clone().map_err(failed)?;
        let (from, ids) = (zygote.clone(), place.ids);
        let forked =
            tokio::task::spawn_blocking(move || from.fork(ids, theirs.as_fd(), workspace.as_fd()));
        let Forked { pid, pidfd } =
            forked.await.map_err(|e| Error::Start(format!("the fork broke off: {e}")))??;
        ours.set_nonblocking(true).map_err(failed)?;
        let socket = Arc::new(UnixStream::from_std(ours).map_err(failed)?);
        let out = Sender::new(socket.clone());
        let (jobs, warm) = (HashMap::new(), HashSet::new());
        let state = State { jobs, warm, used: Instant::now(), closed: false };
        let process = Arc::new(Self {
            pid,
            pidfd: Some(pidfd),
            lease: place.lease.clone(),
            zygote: zygote.clone(),
            out,
            state: Mutex::new(state),
            next: AtomicU64::new(1),
            warm: AtomicU64::new(0),
            dead: watch::Sender::new(false),
            doomed: AtomicBool::new(false),
        });
        let mut reader = Reader::without_fds(socket);
        let first = tokio::time::timeout(READY_MAX, reader.next::<FromWorker>()).await;
        match first {
            Ok(Ok(Some((FromWorker::Ready, _)))) => {}
            Ok(Ok(Some((FromWorker::Broken { text }, _)))) => return Err(Error::Start(text)),
            Ok(_) => return Err(Error::WorkerDied),
            Err(_) => return Err(Error::Start("the worker does not answer".to_owned())),
        }
        tokio::spawn(read_all(reader, Arc::downgrade(&process)));
        Ok(process)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it is gone, or is on its way to that.
    pub fn is_dead(&self) -> bool {
        *self.dead.borrow() || self.lock().closed
    }

    /// Waits until it is gone.
    pub async fn dead(&self) {
        // The sender is ours.
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    /// Whether it can run this build.
    pub fn knows(&self, build: &EngineBuild) -> Result<bool, Error> {
        match self.zygote.broken(build) {
            Some(what) => Err(Error::Damaged { name: build.name.clone(), what: what.to_owned() }),
            None => Ok(self.zygote.has_one(build)),
        }
    }

    /// Whether this zygote forked it.
    pub fn is_of(&self, zygote: &Arc<Zygote>) -> bool {
        Arc::ptr_eq(&self.zygote, zygote)
    }

    /// When it was used last.
    pub fn last_used(&self) -> Instant {
        self.lock().used
    }

    /// What its warm contexts take, bytes.
    pub fn warm_bytes(&self) -> u64 {
        self.warm.load(Ordering::Relaxed)
    }

    /// Notes what its warm contexts take.
    pub fn set_warm_bytes(&self, bytes: u64) {
        self.warm.store(bytes, Ordering::Relaxed);
    }

    /// Notes that it has a context warm.
    pub fn note_warm(&self, key: &str) {
        self.lock().warm.insert(key.to_owned());
    }

    /// Takes that back; whether it may have had it warm.
    pub fn not_warm(&self, key: &str) -> bool {
        self.lock().warm.remove(key)
    }

    /// Begins an execution, of which at most `budget` bytes of answers are believed; `None`
    /// where the process takes none any more.
    pub fn begin(self: &Arc<Self>, budget: usize) -> Option<InFlight> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (to, answers) = mpsc::unbounded_channel();
        // One that was killed a moment ago is not known to be dead yet, and nothing has begun in it.
        let lives = self.pidfd.as_ref().is_some_and(|pidfd| spawner::alive(pidfd.as_fd()));
        let mut state = self.lock();
        if state.closed || !lives {
            return None;
        }
        state.used = Instant::now();
        state.jobs.insert(id, Answers { to, budget });
        drop(state);
        Some(InFlight { id, answers, process: self.clone() })
    }

    /// Says something to it; where it is gone, the answers' end will tell.
    pub fn tell(
        &self,
        message: &ToWorker,
        body: Vec<u8>,
        fds: Vec<OwnedFd>,
    ) -> std::io::Result<()> {
        self.out.send(Frame::new(message, body)?.with(fds));
        Ok(())
    }

    /// Ends it where nothing runs in it.
    pub fn end_if_idle(&self) -> bool {
        let mut state = self.lock();
        let idle = state.jobs.is_empty() && !state.closed;
        if idle {
            state.closed = true;
            drop(state);
            self.kill();
        }
        idle
    }

    /// Ends it at once, and has nothing begin in it meanwhile.
    pub fn end(&self) {
        self.lock().closed = true;
        self.kill();
    }

    /// Ends it at once.
    pub fn kill(&self) {
        self.doomed.store(true, Ordering::Relaxed);
        self.signal();
    }

    fn signal(&self) {
        if let Some(pidfd) = &self.pidfd {
            // One that is gone needs no signal.
            let _ = spawner::signal(pidfd.as_fd(), rustix::process::Signal::KILL.as_raw());
        }
    }

    fn over(&self) {
        let mut state = self.lock();
        state.closed = true;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        if !jobs.is_empty() && !self.doomed.load(Ordering::Relaxed) {
            tracing::warn!(pid = self.pid, executions = jobs.len(), "a worker died");
        }
        self.dead.send_replace(true);
    }

    /// Hands an answer to its execution. `false`: the worker says what it must not.
    fn take(&self, message: FromWorker, body: Vec<u8>, size: usize) -> bool {
        let (id, last) = match &message {
            FromWorker::Need { id }
            | FromWorker::Part { id }
            | FromWorker::Output { id, .. }
            | FromWorker::Shown { id, .. } => (*id, false),
            FromWorker::Done { id, .. } | FromWorker::Failed { id, .. } => (*id, true),
            FromWorker::Ready | FromWorker::Broken { .. } => return false,
        };
        // What it takes here, about, until it is passed on.
        let size = match &message {
            FromWorker::Shown { .. } => size + SHOWN,
            _ => body.len() + 64,
        };
        let mut state = self.lock();
        let Some(answers) = state.jobs.get_mut(&id) else {
            // Cancelled meanwhile.
            return true;
        };
        if !last {
            match answers.budget.checked_sub(size) {
                Some(rest) => answers.budget = rest,
                None => return false,
            }
        }
        // Nobody waits any more where this fails.
        let _ = answers.to.send((message, body));
        if last {
            state.jobs.remove(&id);
            state.used = Instant::now();
        }
        true
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let (Some(lease), Some(pidfd)) = (self.lease.take(), self.pidfd.take()) else { return };
        // A signal is not an end yet; without a runtime everything ends with this program.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(move || {
                let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
                // One that cannot be killed in a minute hangs in the kernel, and runs nothing.
                let _ = poll(&mut ended, Some(&Timespec { tv_sec: 60, tv_nsec: 0 }));
                drop(lease);
            });
        }
    }
}

impl InFlight {
    /// So many bytes of its answers were taken care of, and count no more.
    pub fn believe(&self, bytes: usize) {
        if let Some(answers) = self.process.lock().jobs.get_mut(&self.id) {
            answers.budget = answers.budget.saturating_add(bytes);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.process.lock();
        if state.jobs.remove(&self.id).is_some() {
            state.used = Instant::now();
            drop(state);
            // A frame of a number can be made.
            let _ = self.process.tell(&ToWorker::Cancel { id: self.id }, Vec::new(), Vec::new());
        }
    }
}

async fn read_all(mut reader: Reader, process: Weak<Process>) {
    loop {
        let next = reader.next::<FromWorker>().await;
        let Some(process) = process.upgrade() else { return };
        let fine = match next {
            Ok(Some((message, body))) => process.take(message, body, reader.size()),
            Ok(None) | Err(_) => false,
        };
        if !fine {
            // It may live and speak nonsense.
            process.signal();
            process.over();
            return;
        }
    }
}
