//! How much a workspace holds, and may hold.
//!
//! Instances and contexts write to the same directory without asking, so what is known here grows
//! old. A count is believed for a moment, and longer where counting takes long: never more than a
//! twentieth of the time is spent on it. Nothing is refused on an old count: then it is counted
//! anew first, or waited for until it may be.

use crate::error::Error;
use crate::tree::{self, Entry, Go, Visit};
use rustix::fs::FileType;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a count is believed at least.
const AGE: Duration = Duration::from_millis(10);
/// Believed at least this many times as long as it took.
const COST: u32 = 20;
/// So few entries are counted where anybody asks, without a thread for it.
const FEW: u64 = 32;
/// Longest wait before something that does not fit is counted again.
const WAIT: Duration = Duration::from_secs(1);

/// What a workspace may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest file, bytes.
    pub file_bytes: u64,
    /// All files together, bytes.
    pub bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { file_bytes: 64 << 20, bytes: 1 << 30, entries: 100_000 }
    }
}

/// What a workspace holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Lengths of all plain files, bytes.
    pub bytes: u64,
    /// Files, directories and links, the root excluded.
    pub entries: u64,
}

/// What may still be added to a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
}

impl Usage {
    fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            entries: self.entries.saturating_add(other.entries),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            entries: self.entries.saturating_sub(other.entries),
        }
    }
}

#[derive(Default)]
struct Book {
    /// As last counted, and what was done here since.
    usage: Usage,
    /// What is being written.
    claimed: Usage,
    /// When the last count began, and how long it took.
    counted: Option<(Instant, Duration)>,
    /// Somebody counts.
    counting: bool,
    /// Added here since the count under way began; it may have missed it.
    added: Usage,
}

impl Book {
    /// Whether the count is not old.
    fn is_fresh(&self) -> bool {
        self.counted.is_some_and(|(at, took)| at.elapsed() < AGE.max(took * COST))
    }
}

/// Keeps the count of one workspace.
pub(crate) struct Ledger {
    root: OwnedFd,
    limits: Limits,
    /// What others leave of a quota that is not this workspace's alone, bytes.
    bound: AtomicU64,
    book: Mutex<Book>,
    counted: Condvar,
}

impl Ledger {
    pub fn new(root: OwnedFd, limits: Limits) -> Self {
        let bound = AtomicU64::new(u64::MAX);
        Self { root, limits, bound, book: Mutex::default(), counted: Condvar::new() }
    }

    /// From now on no more than so many bytes, whatever its own limit says.
    pub fn bound(&self, bytes: u64) {
        self.bound.store(bytes, Ordering::Relaxed);
    }

    /// Whether that is less than its own limit.
    pub fn is_bound(&self) -> bool {
        self.bound.load(Ordering::Relaxed) < self.limits.bytes
    }

    /// How many bytes it may hold, and what is said where that is too little.
    fn most(&self) -> (u64, Error) {
        match self.bound.load(Ordering::Relaxed) {
            bound if bound < self.limits.bytes => (bound, Error::Quota),
            _ => (self.limits.bytes, Error::Full { what: "bytes", limit: self.limits.bytes }),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it holds, by a count that is not old. Blocks.
    pub fn usage(&self) -> Result<Usage, Error> {
        let book = self.fresh(self.book())?;
        Ok(book.usage)
    }

    /// What may be added, by a count that is not old. Blocks.
    pub fn room(&self) -> Result<Room, Error> {
        let book = self.fresh(self.book())?;
        Ok(self.left(&book))
    }

    /// The same where it takes no time: the count is not old, or little is there to be counted.
    pub fn room_now(&self) -> Option<Room> {
        let mut book = self.book.try_lock().ok()?;
        if !book.is_fresh() {
            if book.counting || book.usage.entries > FEW {
                return None;
            }
            let began = Instant::now();
            let few = Limits { entries: FEW, ..self.limits };
            book.usage = count(&self.root, few).ok().filter(|usage| usage.entries <= FEW)?;
            book.counted = Some((began, began.elapsed()));
        }
        Some(self.left(&book))
    }

    /// When the last count began.
    pub fn counted(&self) -> Option<Instant> {
        self.book().counted.map(|(at, _)| at)
    }

    fn left(&self, book: &Book) -> Room {
        let used = book.usage.plus(book.claimed);
        Room {
            bytes: self.most().0.saturating_sub(used.bytes),
            entries: self.limits.entries.saturating_sub(used.entries),
        }
    }

    fn fresh<'a>(&'a self, book: MutexGuard<'a, Book>) -> Result<MutexGuard<'a, Book>, Error> {
        if book.is_fresh() { Ok(book) } else { self.count(book) }
    }

    /// Counts, or waits for the count that is under way.
    fn count<'a>(&'a self, mut book: MutexGuard<'a, Book>) -> Result<MutexGuard<'a, Book>, Error> {
        if book.counting {
            let waited = self.counted.wait_while(book, |book| book.counting);
            return Ok(waited.unwrap_or_else(PoisonError::into_inner));
        }
        book.counting = true;
        book.added = Usage::default();
        drop(book);
        let began = Instant::now();
        let counted = count(&self.root, self.limits);
        let mut book = self.book();
        book.counting = false;
        self.counted.notify_all();
        book.usage = counted?.plus(book.added);
        book.counted = Some((began, began.elapsed()));
        Ok(book)
    }

    /// Sets aside room for `more`. Errors: [`Error::Full`]. Blocks.
    fn take(&self, more: Usage) -> Result<(), Error> {
        let asked = Instant::now();
        let mut book = self.fresh(self.book())?;
        loop {
            let (most, too_much) = self.most();
            let then = book.usage.plus(book.claimed).plus(more);
            let full = if more.entries > 0 && then.entries > self.limits.entries {
                Error::Full { what: "entries", limit: self.limits.entries }
            } else if more.bytes > 0 && then.bytes > most {
                too_much
            } else {
                book.claimed = book.claimed.plus(more);
                return Ok(());
            };
            // What never fits need not be counted.
            if more.bytes > most {
                return Err(full);
            }
            match book.counted {
                Some((at, _)) if at >= asked => return Err(full),
                Some((at, took)) => {
                    let wait = (took * COST).min(WAIT).saturating_sub(at.elapsed());
                    drop(book);
                    std::thread::sleep(wait);
                    book = self.count(self.book())?;
                }
                None => book = self.count(book)?,
            }
        }
    }

    fn give_back(&self, claimed: Usage) {
        let mut book = self.book();
        book.claimed = book.claimed.minus(claimed);
    }

    /// What was done: so much is there more, and so much less.
    pub fn changed(&self, more: Usage, less: Usage) {
        let mut book = self.book();
        book.usage = book.usage.plus(more).minus(less);
        book.added = book.added.plus(more).minus(less);
    }

    /// Somebody had this room from `since` on, and left that of it. What was counted meanwhile may
    /// hold a part of what was written, and is not believed.
    fn written(&self, since: Instant, given: Room, left: Room) {
        if given == left {
            return;
        }
        let taken = |from: Room, to: Room| Usage {
            bytes: from.bytes.saturating_sub(to.bytes),
            entries: from.entries.saturating_sub(to.entries),
        };
        self.changed(taken(given, left), taken(left, given));
        let mut book = self.book();
        if book.counted.is_some_and(|(at, _)| at >= since) {
            book.counted = None;
        }
    }

    /// The next question counts anew.
    pub fn forget(&self) {
        self.book().counted = None;
    }
}

/// Room that is set aside for something being written; given back when dropped.
pub(crate) struct Claim {
    ledger: Arc<Ledger>,
    held: Usage,
    /// Bytes that need not be asked for: what is replaced will free them, or they are held.
    credit: u64,
}

impl Claim {
    /// A claim of nothing yet. What is replaced will free `credit` bytes.
    pub fn new(ledger: &Arc<Ledger>, credit: u64) -> Self {
        Self { ledger: ledger.clone(), held: Usage::default(), credit }
    }

    /// Sets aside one entry.
    pub fn entry(&mut self) -> Result<(), Error> {
        self.more(Usage { bytes: 0, entries: 1 })
    }

    /// Sets aside further bytes.
    pub fn bytes(&mut self, bytes: u64) -> Result<(), Error> {
        let free = bytes.min(self.credit);
        self.credit -= free;
        match bytes - free {
            0 => Ok(()),
            bytes => self.more(Usage { bytes, entries: 0 }),
        }
    }

    /// Sets aside bytes that [`Claim::bytes`] will ask for.
    pub fn ahead(&mut self, bytes: u64) -> Result<(), Error> {
        let more = bytes.saturating_sub(self.credit);
        if more > 0 {
            self.more(Usage { bytes: more, entries: 0 })?;
            self.credit += more;
        }
        Ok(())
    }

    fn more(&mut self, more: Usage) -> Result<(), Error> {
        self.ledger.take(more)?;
        self.held = self.held.plus(more);
        Ok(())
    }

    /// It is written: so much is there more, and so much less.
    pub fn done(self, more: Usage, less: Usage) {
        self.ledger.changed(more, less);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.ledger.give_back(self.held);
    }
}

/// Room that somebody who counts by itself writes into, such as a code execution. Dropped without a
/// word of what was left, the next question counts anew.
pub struct Writing {
    ledger: Arc<Ledger>,
    since: Instant,
    given: Room,
    told: bool,
}

impl Writing {
    pub(crate) fn new(ledger: &Arc<Ledger>, given: Room) -> Self {
        Self { ledger: ledger.clone(), since: Instant::now(), given, told: false }
    }

    /// It ended, and so much of the room was left.
    pub fn done(mut self, left: Room) {
        self.ledger.written(self.since, self.given, left);
        self.told = true;
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.told {
            self.ledger.forget();
        }
    }
}

struct Count {
    usage: Usage,
    most: u64,
}

impl Visit for Count {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<Go, Error> {
        self.usage.entries += 1;
        if entry.kind() == FileType::RegularFile {
            let size = u64::try_from(entry.stat.st_size).unwrap_or(0);
            self.usage.bytes = self.usage.bytes.saturating_add(size);
        }
        Ok(if self.usage.entries > self.most { Go::Stop } else { Go::On })
    }

    fn passes(&self) -> bool {
        true
    }
}

/// Counts what lies below `root`; ends past the limit of entries, when nothing fits anyway.
fn count(root: &OwnedFd, limits: Limits) -> Result<Usage, Error> {
    let mut tries = 0;
    loop {
        let mut count = Count { usage: Usage::default(), most: limits.entries };
        let most = usize::try_from(limits.entries).unwrap_or(usize::MAX);
        match tree::walk(root, most, &mut count) {
            // A directory was moved while it was being counted.
            Err(Error::Changed) if tries < 3 => tries += 1,
            done => return done.map(|_| count.usage),
        }
    }
}
