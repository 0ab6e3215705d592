//! The writer thread: group commit, and what it does when the disk is full.
//!
//! All that waits becomes one transaction with a savepoint per job and one fsync; then every
//! caller is answered. Drawing of the full disk:
//!
//! ```text
//!            a commit finds no space: give some of the reserve, redo the urgent jobs alone
//!   normal ───────────────────────────────────────────────────────────────────────────► tight
//!     ▲                                                       urgent jobs: from the reserve │
//!     └──────────────── the reserve can be made again ◄─────────────── other jobs: Error::Full
//! ```

use crate::lock::Lock;
use crate::ops;
use crate::queue::{Job, Queue};
use crate::reserve::Reserve;
use crate::{Error, Result};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The log is moved into the database when it has this many bytes, and written from its start
/// again. Its file keeps the space: that is a second reserve, which nobody else can take.
const CHECKPOINT: u64 = 4 << 20;
/// Readers can keep the log from starting anew; at this size, bytes, it waits for them and gives
/// the space back, …
const TRUNCATE: u64 = 32 << 20;
/// … on a full disk at this one.
const TRUNCATE_FULL: u64 = 8 << 20;

pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) queue: Arc<Queue>,
    pub(crate) reserve: Reserve,
    pub(crate) log: PathBuf,
    pub(crate) lock: Lock,
    /// How long transactions took, seconds.
    pub(crate) commits: prometheus::Histogram,
    /// The id of the newest event that is on the disk.
    pub(crate) events: watch::Sender<i64>,
}

/// Closes the queue however the thread ends, so that nobody waits for ever.
struct CloseOnExit(Arc<Queue>);

impl Drop for CloseOnExit {
    fn drop(&mut self) {
        self.0.close();
        while self.0.next().is_some() {}
    }
}

impl Writer {
    /// Works until the queue is closed and empty; then folds the log in and gives the lock up.
    pub(crate) fn run(mut self) {
        let _exit = CloseOnExit(Arc::clone(&self.queue));
        while let Some(batch) = self.queue.next() {
            self.batch(batch);
            self.checkpoint();
        }
        self.fold("TRUNCATE");
        let Self { connection, lock, .. } = self;
        if let Err((_, error)) = connection.close() {
            tracing::warn!(%error, "closing the store");
        }
        drop(lock);
    }

    fn batch(&mut self, jobs: Vec<Job>) {
        let mut jobs = jobs;
        if !self.reserve.held() && !self.reserve.make() {
            // Nothing but urgent jobs may eat what the reserve gave back.
            jobs = self.refuse_others(jobs);
        }
        if jobs.is_empty() {
            return;
        }
        let began = Instant::now();
        let mut outcome = self.transaction(&mut jobs);
        self.commits.observe(began.elapsed().as_secs_f64());
        if matches!(outcome, Err(Error::Full)) {
            tracing::error!("the disk of the data directory is full");
            jobs = self.refuse_others(jobs);
            while !jobs.is_empty() && matches!(outcome, Err(Error::Full)) && self.reserve.give() {
                let mode = if self.log_size() > TRUNCATE_FULL { "TRUNCATE" } else { "RESTART" };
                self.fold(mode);
                outcome = self.transaction(&mut jobs);
            }
        }
        if let Err(error) = &outcome {
            tracing::error!(error = error as &dyn std::error::Error, "a commit failed");
        }
        if outcome.is_ok() {
            self.tell_events();
        }
        for job in jobs {
            if outcome.is_ok() {
                self.queue.written(&job.notes);
            }
            match job.call {
                Some(call) => call.answer(outcome.clone()),
                None if outcome.is_err() => self.queue.put_back(job.notes),
                None => {}
            }
        }
    }

    /// Tells readers of events that there are new ones.
    fn tell_events(&self) {
        match ops::events::last(&self.connection) {
            Ok(last) => drop(self.events.send_if_modified(|known| {
                let newer = last > *known;
                *known = last.max(*known);
                newer
            })),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "events are not told");
            }
        }
    }

    /// Answers `Full` to all but the urgent jobs.
    fn refuse_others(&self, jobs: Vec<Job>) -> Vec<Job> {
        let (urgent, others) = jobs.into_iter().partition::<Vec<_>, _>(|j| j.urgent);
        for job in others {
            self.queue.put_back(job.notes);
            if let Some(call) = job.call {
                call.answer(Err(Error::Full));
            }
        }
        urgent
    }

    /// One transaction, all or nothing but for jobs that fail by themselves.
    fn transaction(&self, jobs: &mut [Job]) -> Result<()> {
        let result = self.attempt(jobs);
        if result.is_err() && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        result.map_err(
            |e| {
                if e.maybe_full() && self.reserve.disk_is_full() { Error::Full } else { e }
            },
        )
    }

    fn attempt(&self, jobs: &mut [Job]) -> Result<()> {
        let run = |sql| self.connection.prepare_cached(sql)?.execute([]);
        run("BEGIN IMMEDIATE")?;
        for job in jobs {
            for (object, notes) in &job.notes {
                self.savepoint(|c| ops::executions::write_notes(c, object, notes))?.unwrap_or_else(
                    |error| tracing::error!(%object, error = &error as &dyn std::error::Error, "an activity was not written"),
                );
            }
            if let Some(call) = &mut job.call
                && let Err(error) = self.savepoint(|c| call.run(c))?
            {
                call.fail(error);
            }
        }
        run("COMMIT")?;
        Ok(())
    }

    /// Runs `work` in a savepoint. The outer error means that the whole transaction is lost.
    fn savepoint(
        &self,
        work: impl FnOnce(&Connection) -> Result<()>,
    ) -> Result<std::result::Result<(), Error>> {
        let run = |sql| self.connection.prepare_cached(sql)?.execute([]);
        run("SAVEPOINT job")?;
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&self.connection)))
            .unwrap_or_else(|panic| Err(Error::Panicked(text_of(panic.as_ref()))));
        match outcome {
            Ok(()) => {
                run("RELEASE job")?;
                Ok(Ok(()))
            }
            // These are of the file, not of the job; SQLite may have rolled all back by itself.
            Err(error @ (Error::Full | Error::Sqlite(_)))
                if error.maybe_full()
                    || matches!(error, Error::Full)
                    || self.connection.is_autocommit() =>
            {
                Err(error)
            }
            Err(error) => {
                run("ROLLBACK TO job")?;
                run("RELEASE job")?;
                Ok(Err(error))
            }
        }
    }

    /// Keeps the log small. Callers have been answered before.
    fn checkpoint(&self) {
        if self.log_size() > TRUNCATE {
            self.fold("TRUNCATE");
        }
    }

    fn log_size(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |m| m.len())
    }

    fn fold(&self, mode: &str) {
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        if let Err(error) = self.connection.query_row(&sql, [], |_| Ok(())) {
            tracing::warn!(error = &error as &dyn std::error::Error, "a checkpoint failed");
        }
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

/// Sets what every connection of the writer needs.
pub(crate) fn configure(connection: &Connection) -> Result<()> {
    connection.busy_timeout(Duration::from_millis(500))?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096;",
    )?;
    let pages = CHECKPOINT / 4096;
    connection.query_row(&format!("PRAGMA wal_autocheckpoint = {pages}"), [], |_| Ok(()))?;
    Ok(())
}
