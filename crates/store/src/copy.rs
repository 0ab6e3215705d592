//! A copy of the store in one file, for backups: made while the store is in use, changed while
//! nobody uses it.

use crate::ops::lifecycle;
use crate::ops::rows::{self, object};
use crate::{Error, Result, StopRecord, Store, migrations, open};
use rusqlite::{Connection, OpenFlags, Row, params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use types::{Cause, ObjectId, State};

/// A name in a data directory. While it is there a restore into the directory is not finished,
/// and no store is opened in it.
pub const UNFINISHED: &str = ".restore";

/// Which life of a sandbox it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// When it began, ms since the epoch.
    pub created_at: i64,
    /// Its files are gone.
    pub expired: bool,
    /// It is being destroyed.
    pub destroying: bool,
}

/// A build of an engine that the memory of contexts belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededBuild {
    /// The engine's name.
    pub engine: String,
    /// The interpreter and its version.
    pub version: String,
    /// SHA-256 of the module, hex.
    pub wasm: String,
    /// BLAKE3 of the base image, hex.
    pub base: String,
}

/// What became of a sandbox while its files were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// It was destroyed; another of its name may be there.
    Destroyed,
    /// It expired.
    Expired,
}

const LIVES: &str = "SELECT object, created_at, expired, destroying_at IS NOT NULL
     FROM sandboxes WHERE destroyed_at IS NULL ORDER BY object";

fn life(row: &Row<'_>) -> rusqlite::Result<(ObjectId, Life)> {
    let life = Life { created_at: row.get(1)?, expired: row.get(2)?, destroying: row.get(3)? };
    Ok((object(row, 0)?, life))
}

fn lives<T: FromIterator<(ObjectId, Life)>>(connection: &Connection) -> Result<T> {
    let mut statement = connection.prepare(LIVES)?;
    let lives = statement.query_map([], life)?;
    Ok(lives.collect::<Result<_, _>>()?)
}

impl Store {
    /// Writes a copy of all that was acknowledged so far into a new file, which must not be there.
    /// Reads and writes go on meanwhile. Dropping the future does not end it.
    pub async fn copy_to(&self, path: &Path) -> Result<()> {
        let text = path.to_string_lossy().into_owned();
        self.read(move |c| {
            c.execute("VACUUM INTO ?1", [text])?;
            Ok(())
        })
        .await
    }

    /// The life of every sandbox that is there.
    pub async fn lives(&self) -> Result<HashMap<ObjectId, Life>> {
        self.read(lives).await
    }
}

/// A copy that nobody else uses.
pub struct Copy {
    connection: Connection,
    path: PathBuf,
}

impl Copy {
    /// Opens a copy and brings it to the newest schema. Errors: `Newer`, `Corrupt`, `Full`.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        let damaged = |error| match error {
            Error::Sqlite(source) => {
                Error::Corrupt { path: path.into(), detail: source.to_string() }
            }
            other => other,
        };
        let journal = connection.query_row("PRAGMA journal_mode = MEMORY", [], |_| Ok(()));
        journal.map_err(|error| damaged(error.into()))?;
        let found = migrations::check(&connection, path)?;
        open::inspect(&connection, path).map_err(damaged)?;
        if found == 0 {
            return Err(Error::Corrupt { path: path.into(), detail: "it is empty".to_owned() });
        }
        migrations::run(&mut connection, found)?;
        Ok(Self { connection, path: path.into() })
    }

    /// Every sandbox that is there, ordered by its object.
    pub fn lives(&self) -> Result<Vec<(ObjectId, Life)>> {
        lives(&self.connection)
    }

    /// Tells of every memory of contexts that is kept: the object, the context's id, the
    /// manifest.
    pub fn memories<E: From<Error>>(
        &self,
        mut each: impl FnMut(ObjectId, String, String) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = "SELECT object, id, manifest FROM contexts WHERE manifest IS NOT NULL
             UNION ALL SELECT c.object, c.id, k.manifest
             FROM checkpoints k JOIN contexts c ON c.key = k.context
             WHERE k.manifest IS NOT NULL";
        let mut statement = self.connection.prepare(sql).map_err(Error::from)?;
        let mut rows = statement.query([]).map_err(Error::from)?;
        while let Some(row) = rows.next().map_err(Error::from)? {
            let read = || Ok((object(row, 0)?, row.get(1)?, row.get(2)?));
            let (object, id, manifest) = read().map_err(|e: rusqlite::Error| Error::from(e))?;
            each(object, id, manifest)?;
        }
        Ok(())
    }

    /// The builds of engines that contexts need.
    pub fn builds(&self) -> Result<Vec<NeededBuild>> {
        let sql = "SELECT engine, version, wasm, base FROM contexts WHERE wasm IS NOT NULL
             UNION SELECT c.engine, k.version, k.wasm, k.base
             FROM checkpoints k JOIN contexts c ON c.key = k.context
             WHERE k.wasm IS NOT NULL ORDER BY 1, 2, 3, 4";
        let mut statement = self.connection.prepare(sql)?;
        let builds = statement.query_map([], |row| {
            let (engine, version) = (row.get(0)?, row.get(1)?);
            Ok(NeededBuild { engine, version, wasm: row.get(2)?, base: row.get(3)? })
        })?;
        Ok(builds.collect::<Result<_, _>>()?)
    }

    /// Lets go what went while its files were read.
    pub fn settle(&mut self, gone: &[(ObjectId, Gone)], now_ms: i64) -> Result<()> {
        let work = self.connection.transaction()?;
        for (object, how) in gone {
            let cause = match how {
                Gone::Destroyed => Cause::Destroyed,
                Gone::Expired => Cause::Expired,
            };
            let row = rows::load(&work, object)?;
            let running = row.filter(|row| {
                row.record.as_ref().is_some_and(|record| record.state == State::Running)
            });
            let stop = running.map(|row| {
                let stop = StopRecord {
                    generation: row.generation,
                    reason: cause.reason().to_owned(),
                    exit_code: None,
                    cause,
                    stopped_at: now_ms,
                };
                (stop, None)
            });
            match how {
                Gone::Destroyed => lifecycle::finish_destroy(&work, object, &stop)?,
                Gone::Expired => lifecycle::expire(&work, object, &stop, now_ms)?,
            }
        }
        work.commit()?;
        Ok(())
    }

    /// Moves deadlines on by the time that went by outside of any server, ms, so that nothing
    /// expires because it lay in a backup.
    pub fn resume(&self, away_ms: i64) -> Result<()> {
        let sql = "UPDATE sandboxes
             SET last_activity = last_activity + ?1, alarm_at = alarm_at + ?1
             WHERE destroyed_at IS NULL AND expired = 0";
        self.connection.execute(sql, params![away_ms])?;
        Ok(())
    }

    /// Closes it; all is on the disk.
    pub fn close(self) -> Result<()> {
        self.connection.close().map_err(|(_, error)| Error::from(error))?;
        let file = std::fs::File::open(&self.path).and_then(|file| file.sync_all());
        file.map_err(|e| Error::file("sync", &self.path, e))
    }
}
