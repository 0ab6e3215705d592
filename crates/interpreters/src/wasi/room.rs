//! What the workspace may still grow by.

use super::errno::Errno;
use serde::{Deserialize, Serialize};

/// Largest file that a guest can make, bytes.
pub(crate) const FILE_MAX: u64 = 64 << 20;

/// What the workspace may still grow by during an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Bytes, by the sizes of files.
    pub bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
    /// Something was refused, as there was too little.
    #[serde(default)]
    pub refused: bool,
}

impl Room {
    /// No limit.
    pub const UNLIMITED: Room = Room::of(u64::MAX, u64::MAX);

    /// So many bytes and entries.
    #[must_use]
    pub const fn of(bytes: u64, entries: u64) -> Self {
        Self { bytes, entries, refused: false }
    }

    /// Notes that there was too little; the error.
    pub(crate) fn refuse(&mut self) -> Errno {
        self.refused = true;
        Errno::NOSPC
    }

    pub(crate) fn take_entry(&mut self) -> Result<(), Errno> {
        self.entries = self.entries.checked_sub(1).ok_or_else(|| self.refuse())?;
        Ok(())
    }

    pub(crate) fn give_entry(&mut self) {
        self.entries = self.entries.saturating_add(1);
    }

    /// A file changes its size: refused where it grows by more than there is.
    pub(crate) fn resize(&mut self, old: u64, new: u64) -> Result<(), Errno> {
        if new > old {
            self.bytes = self.bytes.checked_sub(new - old).ok_or_else(|| self.refuse())?;
        } else {
            self.bytes = self.bytes.saturating_add(old - new);
        }
        Ok(())
    }
}

impl Default for Room {
    fn default() -> Self {
        Room::UNLIMITED
    }
}
