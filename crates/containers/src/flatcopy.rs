//! Copying an image for runtimes that cannot map ids: every owner is moved by the base.
//!
//! The source is an image of ours, which nobody changes, so paths may be walked.

use crate::dirs;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Copies all below `from` into `to`, ids moved by `base`.
pub(crate) fn copy(from: &OwnedFd, to: &OwnedFd, base: u32) -> io::Result<()> {
    let mut left = vec![(from.try_clone()?, to.try_clone()?)];
    own(to.as_fd(), &rustix::fs::fstat(from)?, base)?;
    while let Some((from, to)) = left.pop() {
        for name in dirs::names(&from, usize::MAX)? {
            if let Some(pair) = entry(&from, &to, &name, base)? {
                left.push(pair);
            }
        }
    }
    Ok(())
}

fn entry(
    from: &OwnedFd,
    to: &OwnedFd,
    name: &CString,
    base: u32,
) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
    let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            rustix::fs::mkdirat(to, name, Mode::from_raw_mode(0o700))?;
            let made = dirs::open_at(to, name)?;
            own(made.as_fd(), &stat, base)?;
            rustix::fs::fchmod(&made, mode)?;
            return Ok(Some((dirs::open_at(from, name)?, made)));
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(from, name, Vec::new())?;
            rustix::fs::symlinkat(&target, to, name)?;
            let (uid, gid) = shifted(&stat, base);
            rustix::fs::chownat(to, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        FileType::RegularFile => {
            let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut source = File::from(rustix::fs::openat(from, name, read, Mode::empty())?);
            let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let private = Mode::from_raw_mode(0o600);
            let mut made = File::from(rustix::fs::openat(to, name, write, private)?);
            if rustix::fs::ioctl_ficlone(&made, &source).is_err() {
                io::copy(&mut source, &mut made)?;
            }
            own(made.as_fd(), &stat, base)?;
            rustix::fs::fchmod(&made, mode)?;
        }
        // Images hold no devices, and a fifo is nothing that a program in an image needs.
        _ => {}
    }
    Ok(None)
}

fn shifted(stat: &rustix::fs::Stat, base: u32) -> (Uid, Gid) {
    let shift = |id: u32| base + id.min(crate::ids::COUNT - 1);
    (Uid::from_raw(shift(stat.st_uid)), Gid::from_raw(shift(stat.st_gid)))
}

fn own(fd: std::os::fd::BorrowedFd<'_>, stat: &rustix::fs::Stat, base: u32) -> io::Result<()> {
    let (uid, gid) = shifted(stat, base);
    Ok(rustix::fs::fchown(fd, Some(uid), Some(gid))?)
}
