//! Listing a directory.

use crate::error::Error;
use crate::path::FilePath;
use crate::resolve::{self, kind};
use crate::tree::{self, Entry, Go, Visit};
use crate::{Result, Workspace, info};
use rustix::fs::FileType;
use types::FileInfo;

/// Most text of all entries together, bytes, so that deep trees are no flood.
const TEXT: usize = 64 << 20;
/// What an entry takes besides its paths, bytes.
const ENTRY: usize = 400;

/// A list.
pub struct Listing {
    /// The entries, in the order of the bytes of their paths.
    pub files: Vec<FileInfo>,
    /// There is more than a list may hold.
    pub truncated: bool,
}

struct List<'a> {
    base: &'a [u8],
    recursive: bool,
    hidden: bool,
    most: usize,
    text: usize,
    found: Vec<(Vec<u8>, FileInfo)>,
}

impl Visit for List<'_> {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<Go> {
        if !self.hidden && entry.name.to_bytes().starts_with(b".") {
            return Ok(Go::Over);
        }
        self.text += ENTRY + 2 * self.base.len() + 3 * entry.path.len();
        if self.found.len() == self.most || self.text > TEXT {
            return Ok(Go::Stop);
        }
        let mut absolute = self.base.to_vec();
        absolute.push(b'/');
        absolute.extend_from_slice(entry.path);
        let info = info::of(entry.stat, &absolute, entry.path, entry.name.to_bytes());
        self.found.push((entry.path.to_vec(), info));
        Ok(if self.recursive { Go::On } else { Go::Over })
    }

    fn passes(&self) -> bool {
        true
    }
}

impl Workspace {
    /// What lies in a directory, or `recursive` below it; names that begin with a dot, and what
    /// lies below such, only where `hidden`. At most as many entries as the workspace may hold,
    /// and 64 MiB of text. The directory itself may be a link that stays inside. Blocks.
    pub fn list(&self, path: &FilePath, recursive: bool, hidden: bool) -> Result<Listing> {
        let place = resolve::open(&self.root, path)?;
        if kind(&place)? != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        let base = path.absolute();
        let most = usize::try_from(self.limits.entries).unwrap_or(usize::MAX);
        let mut list = List { base: &base, recursive, hidden, most, text: 0, found: Vec::new() };
        let whole = tree::walk(&place, most, &mut list)?;
        let mut found = list.found;
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let files = found.into_iter().map(|(_, info)| info).collect();
        Ok(Listing { files, truncated: !whole })
    }
}
