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
    name: String,
}

impl Prepared {
    /// Keeps room for the file `name` under `.name`.
    pub(super) fn new(dir: BorrowedFd, name: &str, room: u64) -> io::Result<Self> {
        let file = make(dir, &format!(".{name}"), room)?;
        Ok(Self { file, name: name.to_owned() })
    }

    /// Writes the text and gives the file its name.
    pub(super) fn commit<T: Serialize>(&self, dir: BorrowedFd, value: &T) -> io::Result<()> {
        let text = serde_json::to_vec(value)?;
        self.file.write_all_at(&text, 0)?;
        self.file.set_len(text.len() as u64)?;
        Ok(rustix::fs::renameat(dir, format!(".{}", self.name), dir, &*self.name)?)
    }

    /// Gives the room back.
    pub(super) fn cancel(&self, dir: BorrowedFd) {
        remove(dir, &format!(".{}", self.name));
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
