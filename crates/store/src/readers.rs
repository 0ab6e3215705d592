//! A few read-only connections, each used on a blocking thread.

use crate::{Error, Result};
use rusqlite::{Connection, OpenFlags};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

const COUNT: usize = 4;

pub(crate) struct Readers {
    path: PathBuf,
    free: Mutex<Vec<Connection>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    /// Opens them all at once: later the disk may be full or descriptors short.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        let free = (0..COUNT).map(|_| connect(&path)).collect::<Result<_>>()?;
        Ok(Self { path, free: Mutex::new(free), turns: Arc::new(Semaphore::new(COUNT)) })
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `query` on one of them. Dropping the future lets the query end unheard.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| Error::Closed)?;
        let this = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let free = this.free().pop();
            let connection = match free {
                Some(connection) => connection,
                None => connect(&this.path)?,
            };
            let result = query(&connection);
            // A connection that met a fault of the file is replaced at its next turn.
            if !matches!(result, Err(Error::Sqlite(_) | Error::Full)) && !this.turns.is_closed() {
                this.free().push(connection);
            }
            result
        });
        match task.await {
            Ok(result) => result,
            Err(e) if e.is_panic() => Err(Error::Panicked("a read panicked".to_owned())),
            Err(_) => Err(Error::Closed),
        }
    }

    pub(crate) fn close(&self) {
        self.turns.close();
        self.free().clear();
    }
}

fn connect(path: &std::path::Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(24);
    connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -1024;")?;
    // The first read maps the shared index of the log.
    connection.query_row("PRAGMA user_version", [], |_| Ok(()))?;
    Ok(connection)
}
