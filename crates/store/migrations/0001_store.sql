-- The file names itself, so that another program's database is not taken for ours.
PRAGMA application_id = 1397442643;

-- One row per object, for ever known until swept: with destroyed_at it is a tombstone, which
-- keeps name, generation, last record, image and times. What changes often stands here; what is
-- large and seldom changes stands in configurations.
CREATE TABLE sandboxes (
    key             INTEGER PRIMARY KEY,
    object          BLOB    NOT NULL UNIQUE,
    owner           TEXT    NOT NULL,
    id              TEXT    NOT NULL,
    created_at      INTEGER NOT NULL,
    last_activity   INTEGER NOT NULL,
    image           TEXT    NOT NULL,
    generation      INTEGER NOT NULL DEFAULT 0,
    -- Executions of this generation or an older one belong to an earlier life.
    history_floor   INTEGER NOT NULL DEFAULT 0,
    -- How many executions are kept, about; exact after each trim.
    executions      INTEGER NOT NULL DEFAULT 0,
    alarm_at        INTEGER,
    destroying_at   INTEGER,
    destroyed_at    INTEGER,
    expired         INTEGER NOT NULL DEFAULT 0,
    -- The record; none while state is null.
    state           TEXT CHECK (state IN ('running', 'stopped')),
    starts          INTEGER NOT NULL DEFAULT 0,
    record_activity INTEGER,
    started_at      INTEGER,
    stopped_at      INTEGER,
    reason          TEXT,
    exit_code       INTEGER,
    cause           TEXT
) STRICT;

-- destroyed_at is always null here; its column lets the directory be read from the index alone.
CREATE INDEX sandboxes_directory ON sandboxes (owner, created_at, id, state, destroyed_at)
    WHERE destroyed_at IS NULL;
CREATE INDEX sandboxes_by_state ON sandboxes (owner, state, created_at, id)
    WHERE destroyed_at IS NULL AND state IS NOT NULL;
CREATE INDEX sandboxes_running ON sandboxes (state) WHERE state = 'running';
CREATE INDEX sandboxes_destroying ON sandboxes (destroying_at) WHERE destroying_at IS NOT NULL;
CREATE INDEX sandboxes_tombstones ON sandboxes (destroyed_at) WHERE destroyed_at IS NOT NULL;
CREATE INDEX sandboxes_alarms ON sandboxes (alarm_at, object) WHERE alarm_at IS NOT NULL;

CREATE TABLE configurations (
    sandbox  INTEGER PRIMARY KEY,
    settings TEXT NOT NULL,
    env_vars TEXT NOT NULL
) STRICT;

-- History of stops; outlives the sandbox.
CREATE TABLE stops (
    key        INTEGER PRIMARY KEY,
    object     BLOB    NOT NULL,
    generation INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    stopped_at INTEGER NOT NULL,
    reason     TEXT    NOT NULL,
    exit_code  INTEGER,
    cause      TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX stops_once ON stops (object, generation);
CREATE INDEX stops_by_age ON stops (stopped_at);

CREATE TABLE executions (
    key        INTEGER PRIMARY KEY,
    object     BLOB    NOT NULL,
    id         TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    argv       TEXT    NOT NULL,
    status     TEXT    NOT NULL CHECK (status IN ('running', 'exited', 'unknown')),
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    exit_code  INTEGER,
    signal     TEXT,
    timed_out  INTEGER NOT NULL,
    oom_killed INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX executions_once ON executions (object, id);
CREATE INDEX executions_latest ON executions (object, started_at, key);
CREATE INDEX executions_open ON executions (status) WHERE status = 'running';
CREATE INDEX executions_by_age ON executions (started_at) WHERE status <> 'running';

-- AUTOINCREMENT: an id is never given twice, so that a late "done" cannot hit another item.
CREATE TABLE outbox (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    payload  TEXT    NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO meta (key, value) VALUES ('store.cursor_key', lower(hex(randomblob(16))));
