-- Code contexts. A row goes with its sandbox's destroy or expiry, in the same commit.
CREATE TABLE contexts (
    key        INTEGER PRIMARY KEY,
    object     BLOB    NOT NULL,
    -- Unique for ever, so that what is late cannot hit another context.
    id         TEXT    NOT NULL UNIQUE,
    binding    TEXT    NOT NULL,
    language   TEXT    NOT NULL CHECK (language IN ('python', 'javascript', 'ruby', 'perl')),
    -- The engine by its name, and as people read it.
    engine     TEXT    NOT NULL,
    version    TEXT    NOT NULL,
    cwd        TEXT    NOT NULL,
    env_vars   TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    last_used  INTEGER NOT NULL,
    executions INTEGER NOT NULL DEFAULT 0,
    -- The last execution could not be saved.
    stale      INTEGER NOT NULL DEFAULT 0,
    -- The memory: of which module and base image, when it was saved, and the manifest. All are
    -- null before the first execution.
    wasm       TEXT,
    base       TEXT,
    taken_at   INTEGER,
    manifest   TEXT
) STRICT;

CREATE INDEX contexts_of_object ON contexts (object, created_at, key);
CREATE INDEX contexts_by_build ON contexts (wasm, base) WHERE wasm IS NOT NULL;

-- States of contexts to go back to. A row goes with its context.
CREATE TABLE checkpoints (
    key        INTEGER PRIMARY KEY,
    context    INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    version    TEXT    NOT NULL,
    cwd        TEXT    NOT NULL,
    executions INTEGER NOT NULL,
    wasm       TEXT,
    base       TEXT,
    taken_at   INTEGER,
    manifest   TEXT
) STRICT;

CREATE UNIQUE INDEX checkpoints_once ON checkpoints (context, name);
CREATE INDEX checkpoints_of_context ON checkpoints (context, created_at, key);
CREATE INDEX checkpoints_by_build ON checkpoints (wasm, base) WHERE wasm IS NOT NULL;
