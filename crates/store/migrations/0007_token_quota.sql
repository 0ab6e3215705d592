-- The tokens of an owner that are not revoked, with their ends: they are counted from the index alone.
CREATE INDEX tokens_kept ON tokens (owner, expires_at, revoked_at) WHERE revoked_at IS NULL;
