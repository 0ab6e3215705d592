//! Paths as callers give them: bytes, below `/workspace`, made plain before anything is opened.

use crate::error::Error;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::ffi::CString;
use std::fmt;

/// Longest path, bytes; the kernel takes at most 4 096 at once, deeper trees are walked.
const PATH_MAX: usize = 64 << 10;
/// Where a workspace is, for those who look from inside.
const ROOT: &[u8] = b"workspace";

/// A path below `/workspace`: its names, with neither `.` nor `..` nor empty ones among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilePath(Vec<CString>);

impl FilePath {
    /// `/workspace` itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// Reads a path: absolute below `/workspace`, or relative to it. `.` and empty names are
    /// dropped, `..` takes the name before it away. Errors: [`Error::Denied`] for what ends
    /// outside or climbs above `/`, [`Error::Malformed`] for NUL and for more than 64 KiB.
    pub fn parse(path: &[u8]) -> Result<Self, Error> {
        if path.len() > PATH_MAX {
            return Err(Error::Malformed("the path is longer than 65536 bytes"));
        }
        let mut names = match path.first() {
            Some(b'/') => Vec::new(),
            _ => vec![CString::from(c"workspace")],
        };
        for name in path.split(|b| *b == b'/') {
            match name {
                b"" | b"." => {}
                b".." => match names.pop() {
                    Some(_) => {}
                    None => return Err(Error::Denied("the path leads out of /workspace")),
                },
                name => {
                    let nul = |_| Error::Malformed("the path contains a NUL byte");
                    names.push(CString::new(name).map_err(nul)?);
                }
            }
        }
        if names.first().is_none_or(|first| first.as_bytes() != ROOT) {
            return Err(Error::Denied("the path leads out of /workspace"));
        }
        names.remove(0);
        Ok(Self(names))
    }

    /// The path `name`, relative to this one; `..` in it may not climb above `/`.
    pub(crate) fn join(&self, name: &[u8]) -> Result<Self, Error> {
        let mut bytes = self.absolute();
        bytes.push(b'/');
        bytes.extend_from_slice(name);
        Self::parse(&bytes)
    }

    /// Whether it is `/workspace` itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The first `depth` names of it.
    pub(crate) fn upper(&self, depth: usize) -> Self {
        Self(self.0[..depth.min(self.0.len())].to_vec())
    }

    /// The names, from `/workspace` down.
    pub(crate) fn names(&self) -> &[CString] {
        &self.0
    }

    /// The path from `/workspace` on, as bytes: absolute.
    pub fn absolute(&self) -> Vec<u8> {
        let mut bytes = b"/workspace".to_vec();
        for name in &self.0 {
            bytes.push(b'/');
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes
    }

    /// The path below `/workspace`, as bytes: `.` for itself.
    pub(crate) fn relative(names: &[CString]) -> Vec<u8> {
        if names.is_empty() {
            return b".".to_vec();
        }
        let names: Vec<&[u8]> = names.iter().map(|n| n.as_bytes()).collect();
        names.join(&b'/')
    }

    /// The path in a form for people and JSON; see [`shown`].
    pub fn base64(&self) -> Option<String> {
        base64(&self.absolute())
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.absolute()))
    }
}

/// Bytes as text: as they are where they are UTF-8; else each other byte as `\xNN`, and a
/// backslash doubled.
pub fn shown(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Bytes in base64 where they are no UTF-8.
pub fn base64(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).is_err().then(|| STANDARD.encode(bytes))
}
