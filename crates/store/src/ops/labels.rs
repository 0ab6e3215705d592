//! Labels: set as a whole, gone with their sandbox.

use super::rows::execute;
use crate::Result;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use types::ObjectId;

/// The labels of `s` as a JSON object.
pub(crate) const OF_SANDBOX: &str =
    "(SELECT json_group_object(l.name, l.value) FROM labels l WHERE l.sandbox = s.key)";

/// Replaces the labels of a sandbox that is there.
pub(crate) fn set(
    c: &Connection,
    object: &ObjectId,
    labels: &BTreeMap<String, String>,
) -> Result<()> {
    drop_all(c, object)?;
    let sql = "INSERT INTO labels (owner, name, value, created_at, id, sandbox)
         SELECT owner, ?2, ?3, created_at, id, key FROM sandboxes WHERE object = ?1";
    for (name, value) in labels {
        execute(c, sql, params![object.as_bytes(), name, value])?;
    }
    Ok(())
}

/// Deletes the labels of a sandbox.
pub(crate) fn drop_all(c: &Connection, object: &ObjectId) -> Result<()> {
    let sql = "DELETE FROM labels WHERE sandbox = (SELECT key FROM sandboxes WHERE object = ?1)";
    execute(c, sql, [object.as_bytes()])?;
    Ok(())
}
