//! What the workspace may still grow by.

use super::Wasi;
use super::errno::Errno;
use rustix::fs::Stat;
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

    pub(crate) fn give(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// What files may grow by where others without a name hold so much.
    pub(crate) fn free(&self, held: u64) -> u64 {
        self.bytes.saturating_sub(held)
    }

    /// Refuses where a file would grow by more than there is.
    pub(crate) fn check(&mut self, held: u64, bytes: u64) -> Result<(), Errno> {
        if bytes > self.free(held) { Err(self.refuse()) } else { Ok(()) }
    }

    /// A file grew. One without a name is not counted with the workspace, but with what is held.
    pub(crate) fn grew(&mut self, held: &mut u64, before: &Stat, bytes: u64) {
        match before.st_nlink {
            0 => *held = held.saturating_add(bytes),
            _ => self.bytes = self.bytes.saturating_sub(bytes),
        }
    }
}

pub(crate) fn length(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// What comes back when a file goes. A hole takes its length when a guest makes it, and gives
/// nothing back: a command can make them of any length, and pays for none.
pub(crate) fn weight(stat: &Stat) -> u64 {
    length(stat).min(u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512))
}

/// What tells a file from all others that are there at the same time.
pub(crate) fn same_file(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

impl Wasi {
    /// Counts anew what open files without a name hold. Whoever counts the workspace does not see
    /// them, so what they hold stays out of the room that is told.
    pub(crate) fn count_held(&mut self) {
        self.held = self.fds.held();
    }
}

impl Default for Room {
    fn default() -> Self {
        Room::UNLIMITED
    }
}
