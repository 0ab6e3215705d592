-- What happened, each row written in the commit of the change that it tells of. The ids are in the
-- order of the commits and without gaps, so that a reader who remembers one misses nothing; they
-- are never given twice.
CREATE TABLE events (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    type       TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    sandbox    TEXT,
    generation INTEGER,
    data       TEXT    NOT NULL
) STRICT;

CREATE INDEX events_of_owner ON events (owner, id);
CREATE INDEX events_of_sandbox ON events (owner, sandbox, id) WHERE sandbox IS NOT NULL;
-- Nearly all rows of a busy server are of the one type that they leave out.
CREATE INDEX events_of_type ON events (type, id) WHERE type <> 'context.snapshot';
CREATE INDEX events_of_owners_type ON events (owner, type, id) WHERE type <> 'context.snapshot';

-- How far each webhook got: all events up to the cursor were delivered, given up or not wanted.
CREATE TABLE webhooks (
    name   TEXT PRIMARY KEY,
    cursor INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
