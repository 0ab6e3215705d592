//! One instance: what the daemon keeps of it, and the trait over it.

use super::book::Book;
use super::core::Core;
use super::ending;
use super::link::Link;
use crate::ids::Range;
use crate::layout::{Meta, write_json};
use crate::{
    Command, CommandEnd, CommandInfo, CommandOutcome, Ending, Error, ExecError, Identity, Instance,
    RunningCommand, Usage, cgroup, fail,
};
use async_trait::async_trait;
use spawner::protocol::{FromSupervisor, InstanceFile, StopWhy, ToSupervisor};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use types::ObjectId;

/// How long a supervisor may take for what needs no grace, before it is taken for stuck.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);
/// Longest note of a stop, bytes.
const NOTE_MAX: usize = 4096;

/// An instance.
pub(super) struct NativeInstance {
    /// For guards, which own a part of it.
    me: Weak<Self>,
    pub core: Arc<Core>,
    pub object: ObjectId,
    pub file: InstanceFile,
    pub meta: Mutex<Meta>,
    /// Its run directory.
    pub run: OwnedFd,
    pub init: Option<OwnedFd>,
    pub supervisor: Option<OwnedFd>,
    pub book: Book,
    /// Frozen for want of disk on the machine.
    pub frozen: AtomicBool,
    /// The last word of that was not answered: nobody knows whether it was followed.
    frozen_unsure: AtomicBool,
    link: Mutex<Option<Arc<Link>>>,
    /// Who waits for a `Done`, in order.
    done: Mutex<VecDeque<oneshot::Sender<()>>>,
    end: watch::Sender<Option<Ending>>,
    range: Mutex<Option<Range>>,
    /// The first stop asked of this daemon: its note.
    stop_asked: Mutex<Option<Option<String>>>,
}

/// What an instance is made of.
pub(super) struct Parts {
    pub core: Arc<Core>,
    pub object: ObjectId,
    pub file: InstanceFile,
    pub meta: Meta,
    pub run: OwnedFd,
    pub init: Option<OwnedFd>,
    pub link: Option<Arc<Link>>,
    pub range: Option<Range>,
}

impl NativeInstance {
    pub fn new(parts: Parts) -> Arc<Self> {
        let supervisor = match &parts.link {
            Some(_) => spawner::pidfd_open(parts.file.supervisor_pid).ok(),
            None => None,
        };
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            core: parts.core,
            object: parts.object,
            file: parts.file,
            meta: Mutex::new(parts.meta),
            run: parts.run,
            init: parts.init,
            supervisor,
            book: Book::default(),
            frozen: AtomicBool::new(false),
            frozen_unsure: AtomicBool::new(false),
            link: Mutex::new(parts.link),
            done: Mutex::default(),
            end: watch::Sender::new(None),
            range: Mutex::new(parts.range),
            stop_asked: Mutex::default(),
        })
    }

    pub fn ending(&self) -> Option<Ending> {
        self.end.borrow().clone()
    }

    pub fn stop_asked(&self) -> Option<Option<String>> {
        self.stop_asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn disk_mb(&self) -> u64 {
        self.meta.lock().unwrap_or_else(PoisonError::into_inner).disk_mb
    }

    pub fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another connection in the place of a broken one; `None`: there is none any more.
    pub fn set_link(&self, link: Option<Arc<Link>>) {
        // `done` before `link`, as in `request`.
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = std::mem::replace(&mut *now, link) {
            old.close();
        }
        done.clear();
    }

    pub(super) fn send(&self, message: ToSupervisor, fds: Vec<OwnedFd>) -> std::io::Result<()> {
        let link = self.link().ok_or(std::io::ErrorKind::BrokenPipe)?;
        link.send(message, fds)
    }

    /// Sends what is answered by `Done`, and waits for that.
    pub async fn request(&self, message: ToSupervisor) -> Result<(), Error> {
        let (tell, told) = oneshot::channel();
        let gone = || Error::Failed("the instance is gone".to_owned());
        {
            // Sent under the lock, so that answers come in the order of the queue.
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            self.send(message, Vec::new()).map_err(|_| gone())?;
            done.push_back(tell);
        }
        match tokio::time::timeout(PATIENCE, told).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(Error::Failed("the supervisor does not answer".to_owned())),
        }
    }

    /// Freezes or thaws all of it. What fails counts as not done, and is said again by the
    /// guard.
    pub async fn freeze(&self, on: bool) -> Result<(), Error> {
        // At once, so that the guard does not ask a second time while this waits.
        let was = self.frozen.swap(on, Ordering::SeqCst);
        self.frozen_unsure.store(false, Ordering::SeqCst);
        let done = self.request(ToSupervisor::Freeze { on }).await;
        if done.is_err() {
            // Unless another has asked for the opposite meanwhile.
            let _ = self.frozen.compare_exchange(on, was, Ordering::SeqCst, Ordering::SeqCst);
            self.frozen_unsure.store(true, Ordering::SeqCst);
        }
        done
    }

    /// Whether it is to be told to be frozen or thawed, for it is not, or nobody knows.
    pub fn must_freeze(&self, on: bool) -> bool {
        self.frozen.load(Ordering::SeqCst) != on || self.frozen_unsure.load(Ordering::SeqCst)
    }

    /// Forgets a command: at once, or when it has ended.
    pub fn forget(&self, id: &str) {
        if !self.book.forget(id) {
            return;
        }
        let sent = self.send(ToSupervisor::Forget { id: id.to_owned() }, Vec::new());
        if sent.is_err() && super::exec::plain_id(id) {
            let none = rustix::fs::AtFlags::empty();
            let _ = rustix::fs::unlinkat(&self.run, format!("x{id}"), none);
        }
    }

    /// Ends it for its disk.
    pub async fn stop_disk_full(&self) -> Result<(), Error> {
        self.stop_for(StopWhy::DiskFull, Duration::ZERO, None).await
    }

    async fn stop_for(
        &self,
        why: StopWhy,
        grace: Duration,
        note: Option<String>,
    ) -> Result<(), Error> {
        if self.ending().is_some() {
            return Ok(());
        }
        // A main process that has ended already was not ended by us: the first reason counts.
        if why == StopWhy::Stopped && super::remains::status(&self.run).is_none() {
            let mut asked = self.stop_asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.get_or_insert_with(|| note.clone());
        }
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        // A supervisor that is gone ends the instance as well: the driver sees to that.
        let _ = self.send(ToSupervisor::Stop { grace_ms, why, note }, Vec::new());
        let mut ended = self.end.subscribe();
        let patience = PATIENCE.saturating_add(grace);
        if tokio::time::timeout(patience, ended.wait_for(Option::is_some)).await.is_ok() {
            return Ok(());
        }
        tracing::warn!(object = %self.object, "the supervisor does not stop its instance");
        if let Some(supervisor) = &self.supervisor {
            let _ = spawner::signal(supervisor.as_fd(), 9);
        }
        match tokio::time::timeout(PATIENCE * 2, ended.wait_for(Option::is_some)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Failed("the instance does not end".to_owned())),
        }
    }

    /// What a supervisor tells over a connection.
    pub fn told(&self, link: &Link, message: FromSupervisor) -> Option<Ending> {
        match message {
            FromSupervisor::Started { id, at_ms } => self.book.started(&id, at_ms),
            FromSupervisor::ExecFailed { id, kind, step, errno } => {
                self.book.failed(&id, kind, step, errno);
            }
            FromSupervisor::Exited { id, end } => {
                if self.book.exited(&id, &end) {
                    // Where it cannot be sent the next greeting says it.
                    let _ = link.send(ToSupervisor::Forget { id }, Vec::new());
                }
            }
            FromSupervisor::Done => {
                let next = self.done.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                if let Some(next) = next {
                    let _ = next.send(());
                }
            }
            FromSupervisor::Ended { exit } => return Some(ending::of_exit(&exit)),
            FromSupervisor::Welcome { commands, starting, .. } => {
                // After a broken connection: what happened meanwhile.
                let now = fail::now_ms();
                for say in self.book.greeted(link.serial, &commands, starting.as_deref(), now) {
                    let _ = link.send(say, Vec::new());
                }
            }
            FromSupervisor::Ready { .. } | FromSupervisor::CreateFailed { .. } => {}
        }
        None
    }

    /// The end. The first counts.
    pub fn finish(&self, ending: Ending, commands: CommandOutcome) {
        self.set_link(None);
        let end = CommandEnd { outcome: commands, at_ms: fail::now_ms() };
        self.book.end_all(&end);
        self.range.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.end.send_if_modified(|now| {
            let first = now.is_none();
            if first {
                *now = Some(ending);
            }
            first
        });
    }
}

#[async_trait]
impl Instance for NativeInstance {
    fn generation(&self) -> u64 {
        self.file.generation
    }

    fn identity(&self) -> Identity {
        Identity {
            boot_id: self.file.boot_id.clone(),
            pid: self.file.pid,
            pidfs_inode: self.file.pidfs_inode,
            start_time: self.file.start_time,
        }
    }

    fn alive(&self) -> bool {
        match &self.init {
            Some(init) => spawner::alive(init.as_fd()),
            // For want of descriptors its pidfd was not passed on.
            None => matches!(spawner::find(&self.file), Ok(Some(_))),
        }
    }

    async fn exec(&self, command: Command) -> Result<RunningCommand, ExecError> {
        let this = self.me.upgrade().ok_or(ExecError::InstanceGone)?;
        super::exec::exec(this, command).await
    }

    async fn commands(&self) -> Vec<CommandInfo> {
        self.book.infos()
    }

    async fn wait_command(&self, id: &str) -> CommandEnd {
        let unknown = || CommandEnd { outcome: CommandOutcome::Unknown, at_ms: fail::now_ms() };
        let Some(mut ended) = self.book.watch(id) else { return unknown() };
        match ended.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or_else(unknown),
            Err(_) => unknown(),
        }
    }

    async fn forget_command(&self, id: &str) {
        self.forget(id);
    }

    async fn stop(&self, grace: Duration, note: &str) -> Result<(), Error> {
        if note.len() > NOTE_MAX {
            return Err(Error::Unsupported(format!("a note has at most {NOTE_MAX} bytes")));
        }
        self.stop_for(StopWhy::Stopped, grace, Some(note.to_owned())).await
    }

    async fn ended(&self) -> Ending {
        let mut ended = self.end.subscribe();
        let ending = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        // The sender lives in self, so the wait cannot fail.
        ending.unwrap_or_else(|| Ending::Unknown { at_ms: fail::now_ms() })
    }

    async fn set_inactivity_timeout(&self, timeout: Duration) -> Result<(), Error> {
        if self.file.version < 2 {
            let text = "the instance's supervisor is of an older release and keeps its time-out";
            return Err(Error::Unsupported(text.to_owned()));
        }
        let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let meta = {
            let mut meta = self.meta.lock().unwrap_or_else(PoisonError::into_inner);
            meta.inactivity_ms = ms;
            meta.clone()
        };
        write_json(&self.run, "meta", &meta).map_err(fail::step("note the time-out"))?;
        self.request(ToSupervisor::SetInactivity { ms }).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        if self.ending().is_some() {
            return Ok(Usage::default());
        }
        Ok(cgroup::usage(&self.file.cgroups))
    }

    async fn release(&self) {
        if self.ending().is_some() {
            self.core.release(self);
        } else {
            tracing::warn!(object = %self.object, "release of an instance that runs");
        }
    }
}

#[cfg(test)]
mod tests;
