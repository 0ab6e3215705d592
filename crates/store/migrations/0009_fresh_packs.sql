-- Packs of contexts whose files may not be on the disk by themselves yet, as they were written: what
-- a context's row names is whole after a power cut all the same. A row goes when the file was
-- synced, and with its context.
CREATE TABLE fresh_packs (
    context INTEGER NOT NULL,
    file    TEXT    NOT NULL,
    -- Of the bytes: a file that was written over meanwhile has another row.
    hash    TEXT    NOT NULL,
    -- The kernel's boot id: while it is the same one, the kernel has the file.
    boot    TEXT    NOT NULL,
    bytes   BLOB    NOT NULL,
    PRIMARY KEY (context, file)
) STRICT, WITHOUT ROWID;
