//! What the workspace may still grow by.

use super::Wasi;
use super::errno::Errno;
use rustix::fs::Stat;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

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
    /// There is nothing to write to: what asks for more is told so, and not that it was used up.
    #[serde(default)]
    pub read_only: bool,
    /// What was written until then is counted in it: ns of the monotonic clock, 0 where that is not
    /// known.
    #[serde(default)]
    pub as_of: u64,
}

impl Room {
    /// No limit.
    pub const UNLIMITED: Room = Room::of(u64::MAX, u64::MAX);

    /// A workspace that nobody keeps: nothing can be written.
    pub const READ_ONLY: Room = Room { read_only: true, ..Room::of(0, 0) };

    /// So many bytes and entries.
    #[must_use]
    pub const fn of(bytes: u64, entries: u64) -> Self {
        Self { bytes, entries, refused: false, read_only: false, as_of: 0 }
    }

    /// Counted then; `None`: nobody knows when.
    #[must_use]
    pub fn as_of(self, counted: Option<Instant>) -> Self {
        let ago = counted.map(|at| u64::try_from(at.elapsed().as_nanos()).unwrap_or(u64::MAX));
        Self { as_of: ago.map_or(0, |ago| now().saturating_sub(ago)), ..self }
    }

    /// Notes that there was too little; the error.
    pub(crate) fn refuse(&mut self) -> Errno {
        self.refused = true;
        if self.read_only { Errno::ROFS } else { Errno::NOSPC }
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

/// Now, as [`Room::as_of`] has it.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// What executions that run at once in one workspace may write together.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    /// How many run.
    running: usize,
    bytes: u64,
    entries: u64,
    /// When one of them took or gave something last.
    changed: u64,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An execution's part in what it shares with others; it ends with this.
pub(crate) struct Share {
    of: Arc<Shared>,
    given: Room,
    /// What it took, less what it gave: bytes and entries.
    took: (i128, i128),
}

impl Share {
    /// Of an execution that begins, and was given so much.
    fn new(of: Arc<Shared>, given: Room) -> Self {
        let mut book = of.book();
        // What the others wrote since it was counted is not in it.
        if book.running == 0 || given.as_of > book.changed {
            (book.bytes, book.entries) = (given.bytes, given.entries);
        } else {
            book.bytes = book.bytes.min(given.bytes);
            book.entries = book.entries.min(given.entries);
        }
        book.running += 1;
        drop(book);
        Self { of, given, took: (0, 0) }
    }

    /// What is left of what was given, by what this one took alone.
    fn left(&self, refused: bool) -> Room {
        let less = |given: u64, took: i128| {
            u64::try_from((i128::from(given) - took).max(0)).unwrap_or(u64::MAX)
        };
        let (bytes, entries) = self.took;
        let (bytes, entries) = (less(self.given.bytes, bytes), less(self.given.entries, entries));
        Room { bytes, entries, refused, ..self.given }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.book().running -= 1;
    }
}

impl Wasi {
    /// An execution begins that may write so much, together with those that run already.
    pub(crate) fn begin_room(&mut self, given: Room) {
        // An earlier one that was never ended goes first.
        self.share = None;
        self.share = Some(Share::new(self.fds.places.room().clone(), given));
        self.room = given;
    }

    /// It ends: what is left of what it was given.
    pub(crate) fn end_room(&mut self) -> Room {
        match self.share.take() {
            Some(share) => share.left(self.room.refused),
            None => self.room,
        }
    }

    /// Does what may change what the workspace holds, while nobody else does.
    pub(crate) fn in_room<R>(&mut self, call: impl FnOnce(&mut Self) -> R) -> R {
        let Some(shared) = self.share.as_ref().map(|share| share.of.clone()) else {
            return call(self);
        };
        let mut book = shared.book();
        (self.room.bytes, self.room.entries) = (book.bytes, book.entries);
        let done = call(self);
        let Room { bytes, entries, .. } = self.room;
        if (bytes, entries) != (book.bytes, book.entries)
            && let Some(share) = &mut self.share
        {
            share.took.0 += i128::from(book.bytes) - i128::from(bytes);
            share.took.1 += i128::from(book.entries) - i128::from(entries);
            (book.bytes, book.entries, book.changed) = (bytes, entries, now());
        }
        done
    }

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
