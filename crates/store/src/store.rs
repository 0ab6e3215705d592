//! The handle.

mod contexts;
mod events;
mod pages;
mod quotas;
mod tokens;

use crate::ops::{executions, lifecycle, lists, outbox, sandboxes, sweep};
use crate::queue::{Call, Job, Queue};
use crate::readers::Readers;
use crate::{Error, Options, OutboxItem, Result, SandboxRow, StopRecord, open};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{Semaphore, oneshot, watch};
use types::{Execution, ObjectId, QuotaTable, SandboxName, Settings, Stop};

/// Most awaited writes that wait at once; more callers wait for a place.
const PLACES: usize = 1024;

/// A handle to the store of one data directory. Cheap to clone. Every write is one commit, and
/// is on the disk when its future ends; dropping the future does not undo a queued write. Reads
/// see all that was acknowledged before.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Arc<Queue>,
    places: Arc<Semaphore>,
    readers: Arc<Readers>,
    cursor_key: String,
    quotas: Mutex<Arc<QuotaTable>>,
    newest: watch::Receiver<i64>,
    refusals: events::Refusals,
    commits: prometheus::Histogram,
    done: watch::Receiver<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

struct Awaited<T, F> {
    work: F,
    outcome: Result<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Call for Awaited<T, F>
where
    T: Send,
    F: Fn(&Connection) -> Result<T> + Send,
{
    fn run(&mut self, connection: &Connection) -> Result<()> {
        match (self.work)(connection) {
            Ok(value) => {
                self.outcome = Ok(value);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn fail(&mut self, error: Error) {
        self.outcome = Err(error);
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        // A caller that went away is not told.
        let _ = self.reply.send(commit.and(self.outcome));
    }
}

impl Store {
    /// Opens the store, making it where there is none, and brings it to the newest schema. Blocks
    /// (up to 2 s for a predecessor's lock, and for a check of the file).
    ///
    /// Errors: `Locked`, `Corrupt`, `Newer`, `Full`, `File`, `Sqlite`.
    pub fn open(options: Options) -> Result<Store, Error> {
        let open::Opened { writer, readers, cursor_key, newest } = open::open(&options)?;
        let (ended, done) = watch::channel(());
        let commits = writer.commits.clone();
        let queue = open::spawn(writer, ended)?;
        let places = Arc::new(Semaphore::new(PLACES));
        let readers = Arc::new(readers);
        let quotas = Mutex::default();
        let refusals = events::Refusals::default();
        let inner =
            Inner { queue, places, readers, cursor_key, quotas, newest, refusals, commits, done };
        Ok(Store { inner: Arc::new(inner) })
    }

    /// Writes what waits, then closes for all clones and gives the lock up. Later calls end in
    /// `Closed`.
    pub async fn close(&self) {
        self.inner.places.close();
        self.inner.queue.close();
        let mut done = self.inner.done.clone();
        while done.changed().await.is_ok() {}
        self.inner.readers.close();
    }

    async fn write<T: Send + 'static>(
        &self,
        object: Option<&ObjectId>,
        urgent: bool,
        work: impl Fn(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let places = Arc::clone(&self.inner.places);
        let place = places.acquire_owned().await.map_err(|_| Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        let call = Box::new(Awaited { work, outcome: Err(Error::Closed), reply });
        let job = Job { urgent, notes: Vec::new(), call: Some(call), _place: Some(place) };
        self.inner.queue.push(object, job)?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.inner.readers.read(query).await
    }

    // ---- Reads -------------------------------------------------------------------------------

    /// The sandbox of an object; `None` when it is not in the directory.
    pub async fn load(&self, object: &ObjectId) -> Result<Option<SandboxRow>> {
        let object = *object;
        // Asked for first: what is written meanwhile is in the row then.
        let touched = self.inner.queue.touched(&object);
        let row = self.read(move |c| crate::ops::rows::load(c, &object)).await?;
        Ok(row.map(|row| row.touched(touched)))
    }

    /// Whether there is, or was, a sandbox of this object; false again once it was swept.
    pub async fn known(&self, object: &ObjectId) -> Result<bool> {
        let object = *object;
        self.read(move |c| sandboxes::known(c, &object)).await
    }

    /// How long commits took, seconds; one commit is of all that had queued.
    pub fn commit_seconds(&self) -> prometheus::Histogram {
        self.inner.commits.clone()
    }

    /// How many sandboxes there are, of all owners. Walks an index: a millisecond for ten thousand.
    pub async fn count_sandboxes(&self) -> Result<u64> {
        self.read(lists::count).await
    }

    /// All whose record says running.
    pub async fn running(&self) -> Result<Vec<SandboxRow>> {
        self.read(|c| lists::rows(c, lists::RUNNING)).await
    }

    /// All with a destroy that was accepted and is not finished.
    pub async fn destroying(&self) -> Result<Vec<SandboxRow>> {
        self.read(|c| lists::rows(c, lists::DESTROYING)).await
    }

    /// Stops of an object seen at `since_ms` or later, newest first; also of destroyed ones.
    pub async fn stops(&self, object: &ObjectId, since_ms: i64) -> Result<Vec<Stop>> {
        let object = *object;
        self.read(move |c| lists::stops(c, &object, since_ms)).await
    }

    /// The latest commands of an object, newest first; at most 1000 are kept.
    pub async fn executions(&self, object: &ObjectId, limit: u32) -> Result<Vec<Execution>> {
        let object = *object;
        self.read(move |c| executions::latest(c, &object, limit)).await
    }

    /// All commands that run as far as is known.
    pub async fn open_executions(&self) -> Result<Vec<(ObjectId, Execution)>> {
        self.read(executions::open).await
    }

    /// Alarms behind `after`, by time, then object.
    pub async fn alarms(
        &self,
        after: Option<(i64, ObjectId)>,
        limit: u32,
    ) -> Result<Vec<(ObjectId, i64)>> {
        self.read(move |c| lists::alarms(c, after, limit)).await
    }

    /// When the alarm of an object is due.
    pub async fn alarm(&self, object: &ObjectId) -> Result<Option<i64>> {
        let object = *object;
        self.read(move |c| sandboxes::alarm(c, &object)).await
    }

    /// The oldest stops that were not delivered.
    pub async fn outbox(&self, limit: u32) -> Result<Vec<OutboxItem>> {
        self.read(move |c| outbox::oldest(c, limit)).await
    }

    /// A small fact of the server.
    pub async fn meta(&self, key: &str) -> Result<Option<String>> {
        let key = key.to_owned();
        self.read(move |c| outbox::meta(c, &key)).await
    }

    // ---- Writes ------------------------------------------------------------------------------
    // Each ends in `Full` (nothing kept; try again), `Closed` or `Sqlite` besides what it names.
    // Urgent ones find space in the reserve when the disk is full.

    /// Makes the directory entry with its settings and alarm. `false`: it was there, and is
    /// returned as it is. After a destroy it is new, but its generation goes on.
    ///
    /// Errors: `Quota`.
    pub async fn create(
        &self,
        name: &SandboxName,
        settings: &Settings,
        env_vars: &BTreeMap<String, String>,
        now_ms: i64,
        alarm_at: Option<i64>,
    ) -> Result<(bool, SandboxRow)> {
        let none = BTreeMap::new();
        self.create_labelled(name, settings, env_vars, &none, now_ms, alarm_at).await
    }

    /// Sets settings, variables and alarm; an expired one counts as used again. `None`: not there.
    ///
    /// Errors: `Destroying`.
    pub async fn update(
        &self,
        object: &ObjectId,
        settings: &Settings,
        env_vars: &BTreeMap<String, String>,
        alarm_at: Option<i64>,
    ) -> Result<Option<SandboxRow>> {
        self.update_labelled(object, settings, env_vars, None, alarm_at).await
    }

    /// The start intent: directory entry (with `new_settings` and no variables) where missing,
    /// next generation, record running, alarm.
    ///
    /// Errors: `AlreadyRunning`, `Destroying`, `Quota`.
    pub async fn start(
        &self,
        name: &SandboxName,
        new_settings: &Settings,
        now_ms: i64,
        alarm_at: Option<i64>,
    ) -> Result<SandboxRow> {
        let (name, settings) = (name.clone(), new_settings.clone());
        let table = self.quotas();
        self.write(Some(&name.object_id()), false, move |c| {
            lifecycle::start(c, &table, &name, &settings, now_ms, alarm_at)
        })
        .await
    }

    /// Records a stop: record, history, outbox, alarm. `false`: not running, or another
    /// generation; nothing was changed. Urgent.
    pub async fn stop(
        &self,
        object: &ObjectId,
        stop: &StopRecord,
        outbox_payload: Option<&str>,
        alarm_at: Option<i64>,
    ) -> Result<bool> {
        let (id, stop, payload) = (*object, stop.clone(), outbox_payload.map(str::to_owned));
        self.write(Some(object), true, move |c| {
            lifecycle::stop(c, &id, &stop, payload.as_deref(), alarm_at)
        })
        .await
    }

    /// Accepts a destroy. `false`: not there. Urgent.
    pub async fn begin_destroy(&self, object: &ObjectId, now_ms: i64) -> Result<bool> {
        let id = *object;
        self.write(Some(object), true, move |c| lifecycle::begin_destroy(c, &id, now_ms)).await
    }

    /// Finishes a destroy: the stop is recorded (where one is given and fits), directory entry,
    /// variables, contexts, executions and alarm go; a tombstone and the stops stay. Unknown objects are
    /// fine. Urgent.
    pub async fn finish_destroy(
        &self,
        object: &ObjectId,
        stop: Option<(&StopRecord, Option<&str>)>,
    ) -> Result<()> {
        let (id, stop) = (*object, owned(stop));
        self.write(Some(object), true, move |c| lifecycle::finish_destroy(c, &id, &stop)).await
    }

    /// Expires a sandbox: the stop is recorded (where one is given and fits), variables,
    /// contexts, executions and alarm go; the entry stays. Unknown objects are fine. Urgent.
    pub async fn expire(
        &self,
        object: &ObjectId,
        stop: Option<(&StopRecord, Option<&str>)>,
        now_ms: i64,
    ) -> Result<()> {
        let (id, stop) = (*object, owned(stop));
        self.write(Some(object), true, move |c| lifecycle::expire(c, &id, &stop, now_ms)).await
    }

    /// Sets or clears (urgent) the alarm. Unknown objects are fine.
    pub async fn set_alarm(&self, object: &ObjectId, at: Option<i64>) -> Result<()> {
        let id = *object;
        self.write(Some(object), at.is_none(), move |c| sandboxes::set_alarm(c, &id, at)).await
    }

    /// Records the end of a command, whether or not its start was. Of a sandbox that is not
    /// there, or of an earlier life of it: nothing.
    pub async fn exec_ended(&self, object: &ObjectId, e: &Execution) -> Result<()> {
        let (id, e) = (*object, e.clone());
        self.write(Some(object), false, move |c| executions::ended(c, &id, &e)).await
    }

    /// A stop was delivered. Urgent.
    pub async fn outbox_done(&self, id: i64) -> Result<()> {
        self.write(None, true, move |c| outbox::done(c, id)).await
    }

    /// A delivery failed.
    pub async fn outbox_failed(&self, id: i64) -> Result<()> {
        self.write(None, false, move |c| outbox::failed(c, id)).await
    }

    /// Keeps a small fact of the server. Keys that begin with `store.` are the store's own.
    pub async fn set_meta(&self, key: &str, value: &str) -> Result<()> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.write(None, false, move |c| outbox::set_meta(c, &key, &value)).await
    }

    /// Deletes what is older than the times given (ms since the epoch), at most `batch` of each
    /// kind; how many. A tombstone stays as long as stops of it. Urgent: it frees space.
    pub async fn sweep(
        &self,
        stops_before: i64,
        tombstones_before: i64,
        executions_before: i64,
        batch: u32,
    ) -> Result<u64> {
        let before = [stops_before, tombstones_before, executions_before];
        self.write(None, true, move |c| sweep::sweep(c, before, batch)).await
    }

    // ---- Not awaited -------------------------------------------------------------------------

    /// Notes an activity, ms since the epoch; written within a second, or with the object's next
    /// write, and [`Store::load`] knows it at once. Never goes back; the record's too while it says running.
    pub fn touch(&self, object: &ObjectId, last_activity: i64) {
        self.inner.queue.touch(object, last_activity);
    }

    /// Waits until what was queued of this object, notes included, is written, so that the next
    /// read sees it.
    pub async fn settle(&self, object: &ObjectId) -> Result<()> {
        self.write(Some(object), false, |_| Ok(())).await
    }

    /// Notes a started command; written within a second, or with the object's next write.
    pub fn exec_started(&self, object: &ObjectId, e: &Execution) {
        self.inner.queue.started(object, e.clone());
    }
}

fn owned(stop: Option<(&StopRecord, Option<&str>)>) -> lifecycle::Stopping {
    stop.map(|(stop, payload)| (stop.clone(), payload.map(str::to_owned)))
}

#[cfg(test)]
mod tests;
