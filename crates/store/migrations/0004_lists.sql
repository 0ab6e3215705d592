-- Lists of all owners name a sandbox as the account does. Names are ASCII, and compare by byte.
ALTER TABLE sandboxes ADD COLUMN name TEXT GENERATED ALWAYS AS (owner || '/' || id) VIRTUAL;
-- Image and limits of the latest instance, as JSON; kept when the sandbox is destroyed.
ALTER TABLE sandboxes ADD COLUMN placement TEXT;
-- When the latest instance of an earlier life stopped; read where this life had none.
ALTER TABLE sandboxes ADD COLUMN ended_at INTEGER;

UPDATE sandboxes SET placement = (
    SELECT json_object('image', image, 'vcpu', settings ->> '$.vcpu',
        'memoryMib', settings ->> '$.memoryMib', 'diskMb', settings ->> '$.diskMb')
    FROM configurations WHERE sandbox = sandboxes.key)
WHERE generation > 0;

-- The state stands at the end of each, so that a list of one state reads no other row.
CREATE INDEX sandboxes_by_activity ON sandboxes (owner, last_activity, id, state)
    WHERE destroyed_at IS NULL;
CREATE INDEX sandboxes_by_name ON sandboxes (name, state) WHERE destroyed_at IS NULL;
CREATE INDEX sandboxes_all_created ON sandboxes (created_at, name, state)
    WHERE destroyed_at IS NULL;
CREATE INDEX sandboxes_all_activity ON sandboxes (last_activity, name, state)
    WHERE destroyed_at IS NULL;
-- The account's list: also of destroyed ones.
CREATE INDEX sandboxes_started ON sandboxes (name) WHERE generation > 0;

-- Labels of a sandbox, beside what its directory is ordered by, which never changes meanwhile.
CREATE TABLE labels (
    owner      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    value      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    id         TEXT    NOT NULL,
    sandbox    INTEGER NOT NULL,
    PRIMARY KEY (owner, name, value, created_at, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX labels_of_sandbox ON labels (sandbox, name, value);
