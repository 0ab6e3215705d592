//! Small helpers over directory descriptors, so that no path is ever too long or raced.

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Opens a directory of any place; a symbolic link as the last name is followed.
pub(crate) fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(
        CWD,
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Opens a directory below another; no symbolic link is followed.
pub(crate) fn open_at(dir: impl AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

/// Makes a directory with exactly this mode where it is not there, and opens it.
pub(crate) fn ensure(dir: impl AsFd, name: &str, mode: u32) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(dir.as_fd(), name, Mode::from_raw_mode(mode)) {
        Ok(()) => {
            let fd = open_at(dir, name)?;
            rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode))?;
            Ok(fd)
        }
        Err(rustix::io::Errno::EXIST) => open_at(dir, name),
        Err(error) => Err(error.into()),
    }
}

/// The names in a directory, without `.` and `..`; at most `most` of them.
pub(crate) fn names(dir: impl AsFd, most: usize) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes() != b"." && name.to_bytes() != b".." {
            names.push(name.to_owned());
            if names.len() == most {
                break;
            }
        }
    }
    Ok(names)
}

/// Reads a small file whole; `None` where it is not there. More than `most` bytes are cut.
pub(crate) fn read(dir: impl AsFd, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Ok(fd) => std::fs::File::from(fd),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Writes a file whole or not at all, mode 0600.
pub(crate) fn write(dir: impl AsFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temp = format!(".{name}.new");
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir.as_fd(), &*temp, flags, Mode::from_raw_mode(0o600))?;
    let written = std::fs::File::from(fd).write_all(bytes);
    if let Err(error) = written {
        let _ = rustix::fs::unlinkat(dir.as_fd(), &*temp, AtFlags::empty());
        return Err(error);
    }
    Ok(rustix::fs::renameat(dir.as_fd(), &*temp, dir.as_fd(), name)?)
}
