//! Variables and working directories of code.

use std::collections::BTreeMap;
use types::{Error, Result};

/// Longest working directory, bytes.
const CWD: usize = 4096;

/// Variables of an execution: sandbox < context < call, where null removes (S4).
pub(super) fn merged(
    sandbox: &BTreeMap<String, String>,
    context: &BTreeMap<String, String>,
    call: &BTreeMap<String, Option<String>>,
) -> BTreeMap<String, String> {
    let mut all = sandbox.clone();
    all.extend(context.clone());
    for (name, value) in call {
        match value {
            Some(value) => drop(all.insert(name.clone(), value.clone())),
            None => drop(all.remove(name)),
        }
    }
    all
}

/// A working directory in its shortest form. It must lie below `/workspace`; it need not exist.
pub(super) fn directory(cwd: Option<&str>) -> Result<String> {
    let cwd = cwd.unwrap_or("/workspace");
    let refused = |why: &str| Err(Error::invalid("cwd", format!("cwd {why}")));
    if cwd.is_empty() || cwd.len() > CWD || cwd.contains('\0') {
        return refused("must have 1 to 4096 bytes and no NUL");
    }
    let mut parts: Vec<&str> = if cwd.starts_with('/') { vec![] } else { vec!["workspace"] };
    for part in cwd.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
        // Also on the way: what would be there may be a link.
        if parts.first().is_some_and(|first| *first != "workspace") {
            return refused("must lie in /workspace");
        }
    }
    match parts.first() {
        Some(_) => Ok(format!("/{}", parts.join("/"))),
        None => refused("must lie in /workspace"),
    }
}

#[cfg(test)]
mod tests;
