//! Files of the run directory. What must be written at the end has its room from the start, so
//! that a full disk does not swallow how something ended.

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

/// Head of init's record in the file `status`; the same as in the program `init`.
const MAGIC: &[u8; 8] = b"SKMAIN01";
const RECORD: usize = 16;

/// Makes (or empties) a file that only we may read, with `room` bytes kept for it.
pub(super) fn make(dir: BorrowedFd, name: &str, room: u64) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = File::from(rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o600))?);
    match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, room) {
        Ok(()) => {}
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            // Written zeros keep room as well, where the file system does not copy on write.
            file.write_all_at(&vec![0; room as usize], 0)?;
            file.set_len(0)?;
        }
        Err(e) => return Err(e.into()),
    }
    Ok(file)
}

/// A file that will get its name and its text at once, later.
pub(super) struct Prepared {
    file: File,
    /// Under which name it waits.
    waits: String,
    name: String,
    /// How long it is already: a file that was used before. What is written over it is filled
    /// up with blanks, as a file that is cut short costs the disk a transaction.
    length: usize,
}

impl Prepared {
    /// Keeps room for the file `name` under `.name`.
    pub(super) fn new(dir: BorrowedFd, name: &str, room: u64) -> io::Result<Self> {
        let waits = format!(".{name}");
        let file = make(dir, &waits, room)?;
        Ok(Self { file, waits, name: name.to_owned(), length: 0 })
    }

    /// Writes the text and gives the file its name.
    pub(super) fn commit<T: Serialize>(&self, dir: BorrowedFd, value: &T) -> io::Result<()> {
        let mut text = serde_json::to_vec(value)?;
        text.resize(text.len().max(self.length), b' ');
        self.file.write_all_at(&text, 0)?;
        Ok(rustix::fs::renameat(dir, &*self.waits, dir, &*self.name)?)
    }

    /// Gives the room back.
    fn cancel(self, dir: BorrowedFd) {
        remove(dir, &self.waits);
    }
}

/// Files for the ends of commands, used again and again: making and removing one is most of
/// what a short command would wait for.
#[derive(Default)]
pub(super) struct Spares {
    free: Vec<Prepared>,
    made: u64,
}

/// Most files that wait to be used again.
const SPARES: usize = 8;

impl Spares {
    /// A file that will be `name`, from before or a new one.
    pub(super) fn take(
        &mut self,
        dir: BorrowedFd,
        name: String,
        room: u64,
    ) -> io::Result<Prepared> {
        if let Some(spare) = self.free.pop() {
            return Ok(Prepared { name, ..spare });
        }
        self.made += 1;
        let waits = format!(".spare{}", self.made);
        Ok(Prepared { file: make(dir, &waits, room)?, waits, name, length: 0 })
    }

    /// Takes a file back, used or not.
    pub(super) fn give_back(&mut self, dir: BorrowedFd, mut file: Prepared) {
        let moved = rustix::fs::renameat(dir, &*file.name, dir, &*file.waits);
        let length = file.file.metadata().map(|meta| meta.len() as usize);
        // One that was never committed has not its name yet: it waits where it is.
        let there = matches!(moved, Ok(()) | Err(rustix::io::Errno::NOENT));
        match length {
            Ok(length) if there && self.free.len() < SPARES => {
                file.length = length;
                self.free.push(file);
            }
            _ => {
                remove(dir, &file.name);
                file.cancel(dir);
            }
        }
    }
}

/// Writes a whole file under another name and renames it.
pub(super) fn write<T: Serialize>(dir: BorrowedFd, name: &str, value: &T) -> io::Result<()> {
    Prepared::new(dir, name, 1024)?.commit(dir, value)
}

/// Removes a file; one that is not there is fine.
pub(super) fn remove(dir: BorrowedFd, name: &str) {
    // It is gone or the disk is broken: nothing better can be done about either.
    let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
}

/// Wait status of the main process, from init's file `status` in a run directory. `None` where
/// main had not ended when init did, or never was.
///
/// # Errors
/// Where the file is there and cannot be read.
pub fn read_status(run_dir: BorrowedFd) -> io::Result<Option<i32>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat(run_dir, "status", flags, Mode::empty()) {
        Ok(file) => Ok(status_of(&File::from(file))),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// The same of the open file.
pub(super) fn status_of(file: &File) -> Option<i32> {
    let mut record = [0u8; RECORD];
    file.read_exact_at(&mut record, 0).ok()?;
    let (magic, rest) = record.split_first_chunk::<8>()?;
    let (status, check) = rest.split_first_chunk::<4>()?;
    let status = i32::from_le_bytes(*status);
    (magic == MAGIC && check == (!status).to_le_bytes()).then_some(status)
}

/// Removes the directory `data` and what is in it.
pub(super) fn remove_data(dir: BorrowedFd) {
    use std::os::fd::AsRawFd;
    // The standard library's removal follows no symbolic link, whoever races it.
    let _ = std::fs::remove_dir_all(format!("/proc/self/fd/{}/data", dir.as_fd().as_raw_fd()));
}
