//! What SRC and DST mean.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use types::SandboxId;

/// One end of a copy.
#[derive(Debug, PartialEq, Eq)]
pub enum Side {
    /// `-`.
    Stdio,
    /// A path here.
    Local(PathBuf),
    /// A path in the workspace of a sandbox, as bytes.
    Remote(SandboxId, Vec<u8>),
}

/// Reads one. What begins with a slash or a dot is always here, and so is what has no sandbox's
/// name before its first colon.
pub fn side(text: &OsStr) -> Side {
    let bytes = text.as_bytes();
    if bytes == b"-" {
        return Side::Stdio;
    }
    let here = || Side::Local(PathBuf::from(text));
    if bytes.starts_with(b"/") || bytes.starts_with(b".") {
        return here();
    }
    let Some(colon) = bytes.iter().position(|b| *b == b':') else { return here() };
    match std::str::from_utf8(&bytes[..colon]).ok().and_then(|name| name.parse().ok()) {
        Some(id) => Side::Remote(id, bytes[colon + 1..].to_vec()),
        None => here(),
    }
}

/// Whether a path means what is in a directory, without the directory: it is empty, or ends with
/// `.` as its last part.
pub fn is_contents(path: &[u8]) -> bool {
    path.is_empty() || path == b"." || path.ends_with(b"/.")
}

/// Whether a path can only be a directory.
pub fn is_directory(path: &[u8]) -> bool {
    is_contents(path) || path.ends_with(b"/") || path == b".." || path.ends_with(b"/..")
}

/// A path in a workspace: its parts from `/workspace` on. `None`: it leads elsewhere.
pub fn parts(path: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts: Vec<&[u8]> = Vec::new();
    if !path.starts_with(b"/") {
        parts.push(b"workspace");
    }
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    (*parts.first()? == b"workspace").then_some(parts)
}

/// An absolute path out of its parts.
pub fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.iter().flat_map(|part| [b"/", *part].concat()).collect()
}

#[cfg(test)]
mod tests;
