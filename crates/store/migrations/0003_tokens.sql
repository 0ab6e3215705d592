-- Tokens. The secret is not here, only its SHA-256. AUTOINCREMENT: a page's cursor is a key, and
-- must not come to mean another row.
CREATE TABLE tokens (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE,
    digest     BLOB    NOT NULL UNIQUE,
    owner      TEXT,
    scope      TEXT    CHECK (scope IN ('containers:read', 'admin')),
    label      TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used  INTEGER,
    CHECK ((owner IS NULL) <> (scope IS NULL))
) STRICT;

CREATE INDEX tokens_revoked ON tokens (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX tokens_expiring ON tokens (expires_at) WHERE expires_at IS NOT NULL;
