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
}

impl Room {
    /// No limit.
    pub const UNLIMITED: Room = Room { bytes: u64::MAX, entries: u64::MAX };

    pub(crate) fn take_entry(&mut self) -> Result<(), Errno> {
        self.entries = self.entries.checked_sub(1).ok_or(Errno::NOSPC)?;
        Ok(())
    }

    pub(crate) fn give_entry(&mut self) {
        self.entries = self.entries.saturating_add(1);
    }

    /// A file changes its size: refused where it grows by more than there is.
    pub(crate) fn resize(&mut self, old: u64, new: u64) -> Result<(), Errno> {
        if new > old {
            self.bytes = self.bytes.checked_sub(new - old).ok_or(Errno::NOSPC)?;
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
