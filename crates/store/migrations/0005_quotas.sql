-- What the running instance may take, and how much lay in the workspace when it was counted last.
ALTER TABLE sandboxes ADD COLUMN run_memory INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN run_vcpu INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN workspace_bytes INTEGER NOT NULL DEFAULT 0;

UPDATE sandboxes SET
    run_memory = (SELECT coalesce(json_extract(c.settings, '$.memoryMib'), 0)
                  FROM configurations c WHERE c.sandbox = sandboxes.key),
    run_vcpu = (SELECT CAST(coalesce(json_extract(c.settings, '$.vcpu'), 0) * 1000 AS INTEGER)
                FROM configurations c WHERE c.sandbox = sandboxes.key)
 WHERE state = 'running' AND destroyed_at IS NULL
    AND EXISTS (SELECT 1 FROM configurations c WHERE c.sandbox = sandboxes.key);

-- What each owner has, and all together under '', which is no owner's name. Kept by triggers:
-- whatever changes what is counted changes the count, in the same commit.
CREATE TABLE usage (
    owner           TEXT    PRIMARY KEY,
    sandboxes       INTEGER NOT NULL DEFAULT 0,
    running         INTEGER NOT NULL DEFAULT 0,
    memory_mib      INTEGER NOT NULL DEFAULT 0,
    -- Thousandths of a core.
    vcpu            INTEGER NOT NULL DEFAULT 0,
    workspace_bytes INTEGER NOT NULL DEFAULT 0,
    contexts        INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

INSERT INTO usage (owner, sandboxes, running, memory_mib, vcpu)
SELECT owner, count(*), sum(state IS 'running'), sum(run_memory), sum(run_vcpu)
FROM sandboxes WHERE destroyed_at IS NULL GROUP BY owner;

INSERT INTO usage (owner, contexts)
SELECT s.owner, count(*) FROM contexts c JOIN sandboxes s ON s.object = c.object GROUP BY s.owner
ON CONFLICT (owner) DO UPDATE SET contexts = excluded.contexts;

INSERT INTO usage (owner, sandboxes, running, memory_mib, vcpu, contexts)
SELECT '', coalesce(sum(sandboxes), 0), coalesce(sum(running), 0), coalesce(sum(memory_mib), 0),
    coalesce(sum(vcpu), 0), coalesce(sum(contexts), 0)
FROM usage;

CREATE TRIGGER usage_of_a_new_sandbox AFTER INSERT ON sandboxes WHEN NEW.destroyed_at IS NULL
BEGIN
    INSERT INTO usage (owner) VALUES (NEW.owner) ON CONFLICT (owner) DO NOTHING;
    UPDATE usage SET
        sandboxes = sandboxes + 1,
        running = running + (NEW.state IS 'running'),
        memory_mib = memory_mib + (NEW.state IS 'running') * NEW.run_memory,
        vcpu = vcpu + (NEW.state IS 'running') * NEW.run_vcpu,
        workspace_bytes = workspace_bytes + NEW.workspace_bytes
     WHERE owner IN (NEW.owner, '');
END;

-- A tombstone counts nothing, whatever its row says.
CREATE TRIGGER usage_of_a_changed_sandbox
AFTER UPDATE OF state, destroyed_at, run_memory, run_vcpu, workspace_bytes ON sandboxes
BEGIN
    INSERT INTO usage (owner) VALUES (NEW.owner) ON CONFLICT (owner) DO NOTHING;
    UPDATE usage SET
        sandboxes = sandboxes + (NEW.destroyed_at IS NULL) - (OLD.destroyed_at IS NULL),
        running = running + (NEW.destroyed_at IS NULL AND NEW.state IS 'running')
                          - (OLD.destroyed_at IS NULL AND OLD.state IS 'running'),
        memory_mib = memory_mib
            + (NEW.destroyed_at IS NULL AND NEW.state IS 'running') * NEW.run_memory
            - (OLD.destroyed_at IS NULL AND OLD.state IS 'running') * OLD.run_memory,
        vcpu = vcpu
            + (NEW.destroyed_at IS NULL AND NEW.state IS 'running') * NEW.run_vcpu
            - (OLD.destroyed_at IS NULL AND OLD.state IS 'running') * OLD.run_vcpu,
        workspace_bytes = workspace_bytes
            + (NEW.destroyed_at IS NULL) * NEW.workspace_bytes
            - (OLD.destroyed_at IS NULL) * OLD.workspace_bytes
     WHERE owner IN (NEW.owner, '');
END;

-- Only tombstones are deleted. An owner who has nothing needs no row.
CREATE TRIGGER usage_of_a_swept_sandbox AFTER DELETE ON sandboxes
BEGIN
    UPDATE usage SET
        sandboxes = sandboxes - (OLD.destroyed_at IS NULL),
        running = running - (OLD.destroyed_at IS NULL AND OLD.state IS 'running'),
        memory_mib = memory_mib
            - (OLD.destroyed_at IS NULL AND OLD.state IS 'running') * OLD.run_memory,
        vcpu = vcpu - (OLD.destroyed_at IS NULL AND OLD.state IS 'running') * OLD.run_vcpu,
        workspace_bytes = workspace_bytes - (OLD.destroyed_at IS NULL) * OLD.workspace_bytes
     WHERE owner IN (OLD.owner, '');
    DELETE FROM usage WHERE owner = OLD.owner AND sandboxes = 0 AND contexts = 0;
END;

CREATE TRIGGER usage_of_a_new_context AFTER INSERT ON contexts
BEGIN
    INSERT INTO usage (owner) SELECT owner FROM sandboxes WHERE object = NEW.object
    ON CONFLICT (owner) DO NOTHING;
    UPDATE usage SET contexts = contexts + 1
     WHERE owner IN ((SELECT owner FROM sandboxes WHERE object = NEW.object), '');
END;

CREATE TRIGGER usage_of_a_deleted_context AFTER DELETE ON contexts
BEGIN
    UPDATE usage SET contexts = contexts - 1
     WHERE owner IN ((SELECT owner FROM sandboxes WHERE object = OLD.object), '');
END;
