//! What waits for the writer: awaited jobs in order, and notes that nobody awaits.
//!
//! Notes (touches, started executions) gather per object. They leave with the next job of their
//! object, or, when they have waited long enough, as a job of their own at the end of the queue;
//! so a note never overtakes a job that was queued before it.

use crate::{Error, Result};
use rusqlite::Connection;
use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use types::{Execution, ObjectId};

/// How long notes gather. With the commit itself they stay below a second.
const NOTES_WAIT: Duration = Duration::from_millis(500);
/// At this many objects with notes they no longer wait.
const NOTES_OBJECTS: usize = 1024;
/// More started executions than this are not kept waiting; their end records them anyway.
const NOTES_EXECUTIONS: usize = 8192;
/// Most jobs in one transaction; bounds how long a caller waits for its neighbours.
const BATCH: usize = 256;

/// What an awaited write does and how its caller is answered.
pub(crate) trait Call: Send {
    /// Does the work inside the transaction; may be called again after a rollback.
    fn run(&mut self, connection: &Connection) -> Result<()>;
    /// Overrules the outcome of `run`.
    fn fail(&mut self, error: Error);
    /// Answers the caller: with the outcome of `run` if the commit succeeded, else its error.
    fn answer(self: Box<Self>, commit: Result<()>);
}

/// What nobody awaits, of one object.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) touched: Option<i64>,
    pub(crate) started: Vec<Execution>,
}

/// One savepoint of a batch.
pub(crate) struct Job {
    /// Must work on a full disk, from the reserve.
    pub(crate) urgent: bool,
    pub(crate) notes: Vec<(ObjectId, Notes)>,
    pub(crate) call: Option<Box<dyn Call>>,
    /// Its place in the bounded queue, given back when it is answered.
    pub(crate) _place: Option<OwnedSemaphorePermit>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    notes: HashMap<ObjectId, Notes>,
    /// When objects were last touched of which that is not written yet.
    touched: HashMap<ObjectId, i64>,
    executions: usize,
    notes_since: Option<Instant>,
    closed: bool,
}

/// Callers push, the writer thread takes.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job together with the notes of its object.
    pub(crate) fn push(&self, object: Option<&ObjectId>, mut job: Job) -> Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        if let Some((object, notes)) = object.and_then(|o| state.notes.remove_entry(o)) {
            state.executions -= notes.started.len();
            job.notes.push((object, notes));
        }
        state.jobs.push_back(job);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Notes an activity; the latest counts.
    pub(crate) fn touch(&self, object: &ObjectId, at: i64) {
        let noted = self.note(object, |notes, _| notes.touched = notes.touched.max(Some(at)));
        if let Some(mut state) = noted {
            let latest = state.touched.entry(*object).or_insert(at);
            *latest = at.max(*latest);
        }
    }

    /// When an object was last touched, where that is not written yet.
    pub(crate) fn touched(&self, object: &ObjectId) -> Option<i64> {
        self.lock().touched.get(object).copied()
    }

    /// These were written.
    pub(crate) fn written(&self, notes: &[(ObjectId, Notes)]) {
        if notes.iter().all(|(_, notes)| notes.touched.is_none()) {
            return;
        }
        let mut state = self.lock();
        for (object, notes) in notes {
            if state.touched.get(object).copied() <= notes.touched {
                state.touched.remove(object);
            }
        }
    }

    /// Notes a started execution.
    pub(crate) fn started(&self, object: &ObjectId, execution: Execution) {
        self.note(object, |notes, executions| {
            if *executions >= NOTES_EXECUTIONS {
                tracing::warn!(id = execution.id, "too many started executions wait to be written");
                return;
            }
            *executions += 1;
            notes.started.push(execution);
        });
    }

    fn note(
        &self,
        object: &ObjectId,
        add: impl FnOnce(&mut Notes, &mut usize),
    ) -> Option<MutexGuard<'_, State>> {
        let mut state = self.lock();
        if state.closed {
            tracing::warn!(%object, "an activity came after the store was closed");
            return None;
        }
        let State { notes, executions, notes_since, .. } = &mut *state;
        add(notes.entry(*object).or_default(), executions);
        let first = notes_since.is_none();
        notes_since.get_or_insert_with(Instant::now);
        let many = notes.len() >= NOTES_OBJECTS;
        if first || many {
            self.wake.notify_one();
        }
        Some(state)
    }

    /// Takes notes back that could not be written; newer ones stay. They wait again.
    pub(crate) fn put_back(&self, notes: Vec<(ObjectId, Notes)>) {
        for (object, notes) in notes {
            if let Some(at) = notes.touched {
                self.touch(&object, at);
            }
            for execution in notes.started {
                self.started(&object, execution);
            }
        }
    }

    /// Ends the queue: what is in it is still done, nothing is added.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
    }

    /// Waits for work. `None`: closed, and all is done.
    pub(crate) fn next(&self) -> Option<Vec<Job>> {
        let mut state = self.lock();
        loop {
            let waited = state.notes_since.map(|since| since.elapsed());
            if waited.is_some_and(|w| w >= NOTES_WAIT)
                || state.notes.len() >= NOTES_OBJECTS
                || (state.closed && !state.notes.is_empty())
            {
                let notes = std::mem::take(&mut state.notes).into_iter().collect();
                state.executions = 0;
                state.notes_since = None;
                state.jobs.push_back(Job { urgent: false, notes, call: None, _place: None });
            }
            if !state.jobs.is_empty() {
                let count = state.jobs.len().min(BATCH);
                return Some(state.jobs.drain(..count).collect());
            }
            if state.closed {
                return None;
            }
            state = match waited {
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(w) => {
                    let left = NOTES_WAIT.saturating_sub(w);
                    self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
