//! Opening: the lock, the checks, the migrations, and the threads that follow.

use crate::copy::UNFINISHED;
use crate::lock::Lock;
use crate::queue::Queue;
use crate::readers::Readers;
use crate::reserve::Reserve;
use crate::writer::{Writer, configure};
use crate::{Error, Result, migrations};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `application_id` of our files.
const APPLICATION: i64 = 1_397_442_643;

/// Where the store is.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory; made when missing. Holds `store.db` (with `-wal` and `-shm`),
    /// `store.reserve` and `lock`.
    pub dir: PathBuf,
}

/// The parts of an opened store.
pub(crate) struct Opened {
    pub(crate) writer: Writer,
    pub(crate) readers: Readers,
    pub(crate) cursor_key: String,
    pub(crate) newest: tokio::sync::watch::Receiver<i64>,
}

pub(crate) fn open(options: &Options) -> Result<Opened> {
    let dir = &options.dir;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| Error::file("create", dir, e))?;
    let lock = Lock::of(dir)?;
    if dir.join(UNFINISHED).exists() {
        return Err(Error::HalfRestored { path: dir.into() });
    }
    let path = dir.join("store.db");
    let log = dir.join("store.db-wal");
    let mut reserve = Reserve::at(dir);
    let (connection, readers) = loop {
        match database(&path, &log, &reserve).map_err(|e| named(e, &path, &reserve)) {
            Err(Error::Full) if reserve.give() => {}
            other => break other?,
        }
    };
    let _ = File::open(dir).and_then(|d| d.sync_all());
    if !reserve.make() {
        tracing::warn!(dir = %dir.display(), "the disk is full: only stops, destroys and reads work");
    }
    let key = "SELECT value FROM meta WHERE key = 'store.cursor_key'";
    let cursor_key = connection.query_row(key, [], |r| r.get(0))?;
    let (events, newest) = tokio::sync::watch::channel(crate::ops::events::last(&connection)?);
    let queue = Arc::default();
    let commits = commits();
    let writer = Writer { connection, queue, reserve, log, lock, commits, events };
    Ok(Opened { writer, readers, cursor_key, newest })
}

/// A histogram from a tenth of a millisecond to three seconds.
fn commits() -> prometheus::Histogram {
    let buckets: Vec<f64> = (0..16).map(|n| 0.0001 * f64::from(1 << n)).collect();
    let help = "From the begin of a transaction to its sync.";
    let opts = prometheus::HistogramOpts::new("sandkeep_store_commit_seconds", help);
    prometheus::Histogram::with_opts(opts.buckets(buckets))
        .expect("a name and buckets that are constants, and right")
}

fn database(path: &Path, log: &Path, reserve: &Reserve) -> Result<(Connection, Readers)> {
    let size = |p: &Path| std::fs::metadata(p).map_or(0, |m| m.len());
    // SQLite takes an empty file for a new database and throws a log without one away.
    if size(path) == 0 && (size(log) > 0 || reserve.some()) {
        let detail = "it is empty or missing, though the directory has been in use".to_owned();
        return Err(Error::Corrupt { path: path.into(), detail });
    }
    // Made here for its mode: the variables of sandboxes are secrets.
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| Error::file("open", path, e))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    let version = migrations::check(&connection, path)?;
    inspect(&connection, path)?;
    configure(&connection)?;
    migrations::run(&mut connection, version)?;
    Ok((connection, Readers::open(path.into())?))
}

pub(crate) fn inspect(connection: &Connection, path: &Path) -> Result<()> {
    let corrupt = |detail| Err(Error::Corrupt { path: path.into(), detail });
    let application: i64 = connection.query_row("PRAGMA application_id", [], |r| r.get(0))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
    if tables > 0 && application != APPLICATION {
        return corrupt("it is a database of another program".to_owned());
    }
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
    if verdict != "ok" {
        return corrupt(verdict);
    }
    Ok(())
}

/// Gives faults of the file their names.
fn named(error: Error, path: &Path, reserve: &Reserve) -> Error {
    let Error::Sqlite(source) = &error else { return error };
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::Corrupt { path: path.into(), detail: source.to_string() }
        }
        _ if error.maybe_full() && reserve.disk_is_full() => Error::Full,
        _ => error,
    }
}

/// Starts the writer thread; `done` is dropped when it ends.
pub(crate) fn spawn(writer: Writer, done: tokio::sync::watch::Sender<()>) -> Result<Arc<Queue>> {
    let queue = Arc::clone(&writer.queue);
    let path = writer.log.clone();
    std::thread::Builder::new()
        .name("store-writer".to_owned())
        .spawn(move || {
            let _done = done;
            writer.run();
        })
        .map_err(|e| Error::file("start the writer of", path, e))?;
    Ok(queue)
}
