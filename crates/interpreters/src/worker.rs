//! The worker: the process that runs the code of one sandbox.
//!
//! Reading order: here (from the fork to the loop over requests), `contexts` (what is warm, one
//! execution after the other for each), `run` (one execution), `sink` (what it says meanwhile).

mod contexts;
mod run;
mod sink;

use crate::frames::{Frame, Reader, Sender};
use crate::pages::PageMap;
use crate::protocol::{Execute, Failure, FromWorker, ToWorker};
use crate::zygote::{Builds, ENGINES, Mapped};
use crate::{Build, Runtime, frames};
use contexts::Contexts;
use run::Server;
use spawner::jail::{FIRST_KEPT, Fail};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Most threads that run guests.
const THREADS: usize = 4;
/// Most threads for calls that may block.
const BLOCKING: usize = 8;
// Each that saves much memory holds one while it waits for the server, whose words another hears.
const _: () = assert!(BLOCKING >= types::CONTEXTS_MAX);

/// All of a worker, in the process that was forked for it; gives its exit code.
pub(crate) fn run(jailed: Result<(), Fail>, mapped: &Mapped, warm_bytes: u64) -> i32 {
    let Ok(socket) = spawner::jail::kept(FIRST_KEPT) else { return 2 };
    let socket = net::UnixStream::from(socket);
    if let Err(fail) = jailed {
        return i32::from(say_broken(&socket, fail.to_string()).is_err()) + 3;
    }
    let Ok(pages) = spawner::jail::kept(FIRST_KEPT + 1) else { return 2 };
    let pages = PageMap::from(File::from(pages));
    // The first thread is a copy of the zygote's, down to what the C library believes of it: it
    // waits for one that was born here.
    let ran = std::thread::scope(|scope| {
        let whole = std::thread::Builder::new().name("worker".into());
        whole
            .spawn_scoped(scope, || runtime(socket, pages, mapped, warm_bytes))?
            .join()
            .map_err(|_| io::Error::other("the worker broke down"))?
    });
    i32::from(ran.is_err())
}

fn say_broken(mut socket: &net::UnixStream, text: String) -> io::Result<()> {
    frames::write_blocking(&mut socket, &Frame::new(&FromWorker::Broken { text }, Vec::new())?)
}

fn runtime(
    socket: net::UnixStream,
    pages: PageMap,
    mapped: &Mapped,
    warm_bytes: u64,
) -> io::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(BLOCKING)
        // A guest that computes has a thread for a tick at a time: what the server says is heard
        // after each.
        .event_interval(1)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        socket.set_nonblocking(true)?;
        let socket = Arc::new(UnixStream::from_std(socket)?);
        let out = Sender::new(socket.clone());
        let clock = Runtime::new(mapped.engine(), pages)?;
        let contexts = Contexts::new(clock, warm_bytes, mapped)?;
        let builds = Mutex::new(mapped.builds(&Path::new("/").join(ENGINES)));
        let worker = Worker { out: Out(out), contexts, jobs: Arc::default(), builds };
        worker.out.tell(&FromWorker::Ready, Vec::new());
        // Among the threads that run guests: what it spawns need not be handed to another.
        let served = tokio::spawn(async move { worker.serve(Reader::new(socket)).await });
        served.await.map_err(io::Error::other)?
    });
    // Guests that still run have nobody who waits for them.
    runtime.shutdown_background();
    ended
}

/// Where answers go; a server that is gone needs none.
#[derive(Clone)]
pub(crate) struct Out(Sender);

impl Out {
    pub fn tell(&self, message: &FromWorker, body: Vec<u8>) {
        if let Ok(frame) = Frame::new(message, body) {
            self.0.send(frame);
        }
    }
}

/// An execution that is on its way.
struct Job {
    task: AbortHandle,
    packs: mpsc::UnboundedSender<(Vec<OwnedFd>, bool)>,
    /// `None`: it was cancelled, and is not to wait.
    written: Option<mpsc::UnboundedSender<()>>,
}

/// Takes the job off the list when its task ends, however it does. A panic is this execution's
/// alone.
struct Listed {
    jobs: Arc<Mutex<HashMap<u64, Job>>>,
    id: u64,
    out: Out,
}

impl Drop for Listed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = "the worker failed while it ran the code".to_owned();
            let failure = Failure::Other { text };
            self.out.tell(&FromWorker::Failed { id: self.id, failure }, Vec::new());
        }
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

struct Worker {
    out: Out,
    contexts: Arc<Contexts>,
    jobs: Arc<Mutex<HashMap<u64, Job>>>,
    /// By [`crate::engines::EngineBuild::build`] and name.
    builds: Mutex<Builds>,
}

impl Worker {
    /// Until the server is gone.
    async fn serve(&self, mut requests: Reader) -> io::Result<()> {
        while let Some((request, body)) = requests.next().await? {
            match request {
                ToWorker::Execute(job) => {
                    let key = (job.build.build(), job.build.name.clone());
                    let Some(build) = self.build(&key) else {
                        let failure = Failure::UnknownBuild;
                        self.out.tell(&FromWorker::Failed { id: job.id, failure }, Vec::new());
                        continue;
                    };
                    self.start(*job, build, body);
                }
                ToWorker::Packs { id, count, more } => {
                    let fds = requests.take_fds(count)?;
                    if let Some(job) = self.lock().get(&id) {
                        // A job that ended meanwhile needs none.
                        let _ = job.packs.send((fds, more));
                    }
                }
                ToWorker::Written { id } => {
                    if let Some(written) = self.lock().get(&id).and_then(|j| j.written.as_ref()) {
                        let _ = written.send(());
                    }
                }
                ToWorker::Cancel { id } => {
                    if let Some(job) = self.lock().get_mut(&id) {
                        job.written = None;
                        job.task.abort();
                        self.contexts.clock.interrupt();
                    }
                }
                ToWorker::Forget { key } => self.contexts.forget(&key),
            }
        }
        Ok(())
    }

    fn build(&self, key: &(String, String)) -> Option<Arc<Build>> {
        self.builds.lock().unwrap_or_else(PoisonError::into_inner).get(key)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, job: Execute, build: Arc<Build>, stdin: Vec<u8>) {
        let (packs, wanted) = mpsc::unbounded_channel();
        let (written, acknowledged) = mpsc::unbounded_channel();
        let id = job.id;
        // Held while the task is listed, so that it cannot end before.
        let mut jobs = self.lock();
        let (out, contexts) = (self.out.clone(), self.contexts.clone());
        let listed = Listed { jobs: self.jobs.clone(), id, out: out.clone() };
        let server = Server { packs: wanted, written: acknowledged, out };
        // One task: a second would wake another thread, which then takes the first.
        let task = tokio::spawn(async move {
            let _listed = listed;
            run::run(job, build, stdin, server, contexts).await;
        });
        jobs.insert(id, Job { task: task.abort_handle(), packs, written: Some(written) });
    }
}
