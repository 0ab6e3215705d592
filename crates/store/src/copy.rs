//! A copy of the store in one file, for backups: made while the store is in use, changed while
//! nobody uses it.

use crate::ops::lifecycle;
use crate::ops::rows::object;
use crate::{Error, Result, Store, StopRecord, migrations};
use rusqlite::{Connection, OpenFlags, params};
use std::path::{Path, PathBuf};
use types::{Cause, ObjectId};

impl Store {
    /// Writes a copy of all that was acknowledged so far into a new file, which must not be there.
    /// Reads and writes go on meanwhile; what is written after the call may be in it or not.
    pub async fn copy_to(&self, path: &Path) -> Result<()> {
        // What waits without being waited for belongs to it.
        self.set_meta("backup.last", &path.display().to_string()).await?;
        let text = path.to_string_lossy().into_owned();
        self.read(move |c| {
            c.execute("VACUUM INTO ?1", [text])?;
            Ok(())
        })
        .await
    }
}

/// A copy that nobody else uses.
pub struct Copy {
    connection: Connection,
    path: PathBuf,
}

impl Copy {
    /// Opens a copy. Errors: `Newer`, `Corrupt`.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.query_row("PRAGMA journal_mode = MEMORY", [], |_| Ok(()))?;
        let copy = Self { connection, path: path.into() };
        let found = migrations::check(&copy.connection, path)?;
        let verdict: String =
            copy.connection.query_row("PRAGMA integrity_check(1)", [], |r| r.get(0))?;
        if found == 0 || verdict != "ok" {
            return Err(Error::Corrupt { path: path.into(), detail: verdict });
        }
        Ok(copy)
    }

    /// Every sandbox that is there, and whether it must have files: it was started, or has
    /// contexts.
    pub fn objects(&self) -> Result<Vec<(ObjectId, bool)>> {
        let sql = "SELECT object, expired = 0 AND (state IS NOT NULL OR EXISTS (
                SELECT 1 FROM contexts c WHERE c.object = sandboxes.object AND c.wasm IS NOT NULL))
             FROM sandboxes WHERE destroyed_at IS NULL";
        let mut statement = self.connection.prepare(sql)?;
        let objects = statement.query_map([], |row| Ok((object(row, 0)?, row.get(1)?)))?;
        Ok(objects.collect::<Result<_, _>>()?)
    }

    /// Ends what was running and destroys what is `gone`, as nothing of it goes into the backup.
    pub fn settle(&mut self, gone: &[ObjectId], now_ms: i64) -> Result<()> {
        let work = self.connection.transaction()?;
        let running: Vec<(ObjectId, i64)> = {
            let sql = "SELECT object, generation FROM sandboxes WHERE state = 'running'";
            let mut statement = work.prepare(sql)?;
            let rows = statement.query_map([], |row| Ok((object(row, 0)?, row.get(1)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        for (object, generation) in running {
            let stop = StopRecord {
                generation: generation.cast_unsigned(),
                reason: Cause::Unknown.reason().to_owned(),
                exit_code: None,
                cause: Cause::Unknown,
                stopped_at: now_ms,
            };
            lifecycle::stop(&work, &object, &stop, None, None)?;
        }
        for object in gone {
            lifecycle::finish_destroy(&work, object, &None)?;
        }
        work.commit()?;
        Ok(())
    }

    /// Counts as an activity of every sandbox, so that none expires because its backup was old.
    pub fn revive(&self, now_ms: i64) -> Result<()> {
        let sql = "UPDATE sandboxes SET last_activity = max(last_activity, ?1),
                alarm_at = CASE expired WHEN 0 THEN ?1 END
             WHERE destroyed_at IS NULL";
        self.connection.execute(sql, params![now_ms])?;
        Ok(())
    }

    /// Closes it; all is on the disk.
    pub fn close(self) -> Result<()> {
        self.connection.close().map_err(|(_, error)| Error::from(error))?;
        let file = std::fs::File::open(&self.path).and_then(|file| file.sync_all());
        file.map_err(|e| Error::file("sync", &self.path, e))
    }
}
