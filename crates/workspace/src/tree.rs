//! Walking a tree that others may change meanwhile.
//!
//! Depth costs memory, not descriptors: only the last levels are open, the others are found again
//! through `..` and known by their inode. Links and other file systems are not entered. What is
//! gone when its turn comes is left out.

use crate::error::Error;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Levels that are kept open.
const WINDOW: usize = 32;

/// An entry as the walk meets it.
pub(crate) struct Entry<'a> {
    /// The directory that it lies in.
    pub dir: BorrowedFd<'a>,
    /// Its name there.
    pub name: &'a CStr,
    /// What it was when it was looked at.
    pub stat: &'a Stat,
    /// Its path from the walk's start.
    pub path: &'a [u8],
}

impl Entry<'_> {
    /// What it is.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
}

/// How the walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Go {
    /// Into it, where it is a directory.
    On,
    /// Past it.
    Over,
    /// Not at all.
    Stop,
}

/// What looks at a tree.
pub(crate) trait Visit {
    /// An entry, before what lies in it.
    fn enter(&mut self, entry: &Entry<'_>) -> Result<Go, Error>;

    /// Whether the walk goes past a directory that this process may not read, as an ordinary user
    /// may meet it; else that is an error.
    fn passes(&self) -> bool {
        false
    }

    /// A directory, after what lies in it.
    fn leave(&mut self, _dir: BorrowedFd<'_>, _name: &CStr) -> Result<(), Error> {
        Ok(())
    }
}

struct Level {
    fd: Option<OwnedFd>,
    id: (u64, u64),
    /// Names that are left, the next one last.
    left: Vec<CString>,
    name: CString,
    /// Length of the path up to here.
    path: usize,
}

/// Walks all below `root`, a directory. In each directory at most `most` names are looked at, in
/// the order of their bytes; `false`: there were more, or the visitor stopped.
pub(crate) fn walk(root: impl AsFd, most: usize, visit: &mut impl Visit) -> Result<bool, Error> {
    let mut whole = true;
    let top = open_dir(root, c".")?;
    let device = rustix::fs::fstat(&top)?.st_dev;
    let mut path = Vec::new();
    let mut stack = vec![level(top, CString::default(), 0, most, &mut whole)?];
    while let Some(here) = stack.last_mut() {
        let fd = here.fd.as_ref().ok_or(Error::Changed)?;
        path.truncate(here.path);
        let Some(name) = here.left.pop() else {
            ascend(&mut stack, visit)?;
            continue;
        };
        let stat = match rustix::fs::statat(fd, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            Err(Errno::ACCESS) if visit.passes() => continue,
            stat => stat?,
        };
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        let entry = Entry { dir: fd.as_fd(), name: &name, stat: &stat, path: &path };
        let go = visit.enter(&entry)?;
        match go {
            Go::Stop => return Ok(false),
            Go::On if entry.kind() == FileType::Directory => {}
            _ => continue,
        }
        let child = match open_dir(fd, &name) {
            Ok(child) if stat.st_dev == device => Some(child),
            // Of another file system, gone, or something else by now.
            Ok(_) | Err(Error::NotFound | Error::NotDirectory | Error::System(Errno::LOOP)) => None,
            Err(Error::Denied(_)) if visit.passes() => None,
            Err(error) => return Err(error),
        };
        let Some(child) = child else {
            // What was entered is left, too.
            visit.leave(fd.as_fd(), &name)?;
            continue;
        };
        let length = path.len();
        stack.push(level(child, name, length, most, &mut whole)?);
        if let Some(old) = stack.len().checked_sub(WINDOW + 1) {
            stack[old].fd = None;
        }
    }
    Ok(whole)
}

/// Leaves the innermost directory, and finds the one above again.
fn ascend(stack: &mut Vec<Level>, visit: &mut impl Visit) -> Result<(), Error> {
    let Some(done) = stack.pop() else { return Ok(()) };
    let Some(above) = stack.last_mut() else { return Ok(()) };
    if above.fd.is_none() {
        let parent = open_dir(done.fd.ok_or(Error::Changed)?, c"..")?;
        let stat = rustix::fs::fstat(&parent)?;
        if (stat.st_dev, stat.st_ino) != above.id {
            return Err(Error::Changed);
        }
        above.fd = Some(parent);
    }
    match &above.fd {
        Some(fd) => visit.leave(fd.as_fd(), &done.name),
        None => Err(Error::Changed),
    }
}

fn level(
    fd: OwnedFd,
    name: CString,
    path: usize,
    most: usize,
    whole: &mut bool,
) -> Result<Level, Error> {
    let own = rustix::fs::fstat(&fd)?;
    let mut left = names(&fd, most.saturating_add(1))?;
    if left.len() > most {
        left.pop();
        *whole = false;
    }
    left.sort_unstable_by(|a, b| b.cmp(a));
    Ok(Level { fd: Some(fd), id: (own.st_dev, own.st_ino), left, name, path })
}

/// Which file it is, whatever its name.
pub(crate) fn id(fd: impl AsFd) -> Result<(u64, u64), Error> {
    let stat = rustix::fs::fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// The names in a directory, without `.` and `..`; at most `most` of them, in no order.
pub(crate) fn names(dir: impl AsFd, most: usize) -> Result<Vec<CString>, Error> {
    let mut names = Vec::new();
    let entries = match Dir::read_from(&dir) {
        // It may be read, and nothing in it be looked up, not even itself.
        Err(Errno::ACCESS) => {
            let mut again = Dir::new(rustix::io::fcntl_dupfd_cloexec(&dir, 0)?)?;
            again.rewind();
            again
        }
        opened => opened?,
    };
    for entry in entries {
        if names.len() == most {
            break;
        }
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Opens a directory for reading; a link is not followed.
pub(crate) fn open_dir(dir: impl AsFd, name: &CStr) -> Result<OwnedFd, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}
