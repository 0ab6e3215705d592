//! What the main process writes: kept in two files of at most a MiB each, the older one
//! dropped. Main is never made to wait for a disk that is full.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest log file, bytes.
const LIMIT: u64 = 1 << 20;

/// The main process's output and where it goes.
pub(super) struct Output {
    pipe: File,
    dir: OwnedFd,
    file: Option<File>,
    size: u64,
}

impl Output {
    pub(super) fn new(pipe: OwnedFd, dir: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { pipe: pipe.into(), dir, file: None, size: 0 })
    }

    /// Takes what is there, at most a few buffers at a time; false at the pipe's end.
    pub(super) fn read(&mut self) -> bool {
        let mut buffer = [0u8; 65536];
        for _ in 0..4 {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.keep(&buffer[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.file.is_some() && self.size + bytes.len() as u64 > LIMIT {
            self.file = None;
            // Where it fails the file grows on by one buffer, and the next time is another try.
            let _ = rustix::fs::renameat(&self.dir, "log", &self.dir, "log.old");
        }
        if self.file.is_none() {
            self.open();
        }
        if let Some(file) = &mut self.file {
            match file.write(bytes) {
                Ok(count) => self.size += count as u64,
                // A full disk: these bytes are lost, main goes on.
                Err(_) => self.file = None,
            }
        }
    }

    fn open(&mut self) {
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::APPEND
            | OFlags::CLOEXEC
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK;
        let opened = rustix::fs::openat(&self.dir, "log", flags, Mode::from_raw_mode(0o600));
        let Ok(file) = opened.map(File::from) else { return };
        self.size = file.metadata().map_or(0, |found| found.len());
        self.file = Some(file);
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
