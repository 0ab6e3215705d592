//! From a path to a descriptor, beneath the workspace and nowhere else.
//!
//! The kernel does it: every name is opened by openat2 with RESOLVE_BENEATH, so that a directory
//! that becomes a link meanwhile changes what is found and never where it is. One thing the
//! kernel cannot know is that a link to `/workspace/x` stays inside; where it says that a link
//! leads out, the path is walked name by name, each step beneath the one before ([`way`]), and such
//! a link starts again at the root. A link to anywhere else is refused.

use crate::error::Error;
use crate::path::FilePath;
use crate::way::{self, Found, Root, Start};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

/// How often a walk that the kernel could not make sure of is tried again.
const TRIES: usize = 16;

/// A name in a directory; what is there, if anything, may change at any time.
#[derive(Debug)]
pub(crate) struct Place {
    /// The directory, opened as a place.
    pub dir: OwnedFd,
    /// The name in it; `None`: the directory itself is meant.
    pub name: Option<CString>,
}

impl Place {
    /// Its name. Errors: what `root` says where it has none.
    pub fn named(self, root: Error) -> Result<(OwnedFd, CString), Error> {
        match self.name {
            Some(name) => Ok((self.dir, name)),
            None => Err(root),
        }
    }

    /// Opens what is there as a place; a link is not followed.
    pub fn open(&self) -> Result<OwnedFd, Error> {
        match &self.name {
            Some(name) => place_at(&self.dir, name, OFlags::NOFOLLOW),
            None => place_at(&self.dir, c".", OFlags::DIRECTORY),
        }
    }
}

/// openat2 beneath `dir`, tried again where a race kept the kernel from being sure.
pub(crate) fn beneath(
    dir: impl AsFd,
    name: &CStr,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC;
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(dir.as_fd(), name, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries < TRIES => tries += 1,
            done => return done,
        }
    }
}

fn place_at(dir: impl AsFd, name: &CStr, flags: OFlags) -> Result<OwnedFd, Error> {
    Ok(beneath(dir, name, OFlags::PATH | flags, Mode::empty())?)
}

/// What is at the path, opened as a place; links are followed as long as they stay inside.
pub(crate) fn open(root: impl AsFd, path: &FilePath) -> Result<OwnedFd, Error> {
    let whole = text(path.names());
    match beneath(root.as_fd(), &whole, OFlags::PATH, Mode::empty()) {
        Err(Errno::XDEV | Errno::NAMETOOLONG) => {
            let found = walk(root, path.names(), true)?.open()?;
            match kind(&found)? {
                // Put there since it was looked at.
                FileType::Symlink => Err(Error::Changed),
                _ => Ok(found),
            }
        }
        found => Ok(found?),
    }
}

/// The directory and name that the path means. Links on the way are followed as long as they
/// stay inside; the last name's only where `follow`.
pub(crate) fn place(root: impl AsFd, path: &FilePath, follow: bool) -> Result<Place, Error> {
    let Some((name, above)) = path.names().split_last() else {
        return Ok(Place { dir: place_at(root, c".", OFlags::DIRECTORY)?, name: None });
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let dir = match beneath(root.as_fd(), &text(above), flags, Mode::empty()) {
        Err(Errno::XDEV | Errno::NAMETOOLONG) => return walk(root, path.names(), follow),
        dir => dir?,
    };
    if follow && is_link(&dir, name)? {
        return walk(root, path.names(), true);
    }
    Ok(Place { dir, name: Some(name.clone()) })
}

fn is_link(dir: &OwnedFd, name: &CStr) -> Result<bool, Error> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Symlink),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Names as one path.
fn text(names: &[CString]) -> CString {
    // Names hold no NUL.
    CString::new(FilePath::relative(names)).unwrap_or_default()
}

/// Walks name by name, as links to `/workspace/x` need it: see [`crate::way`].
fn walk(root: impl AsFd, names: &[CString], follow: bool) -> Result<Place, Error> {
    let dir = root.as_fd();
    let roots = [Root { path: b"/workspace", dir: Some(dir) }];
    let start = Start { dir, root: 0, below: false };
    match way::walk(&roots, start, &FilePath::relative(names), follow) {
        Ok(Found::Spot(spot)) => Ok(Place { dir: spot.dir, name: spot.name }),
        Ok(Found::Outside(_)) | Err(Errno::XDEV) => {
            Err(Error::Denied("a link leads out of /workspace"))
        }
        Err(Errno::NAMETOOLONG) => {
            Err(Error::Malformed("the path is too deep, or a name in it too long"))
        }
        Err(error) => Err(error.into()),
    }
}

/// The names of a link's target, and whether it starts at `/workspace`.
fn target_names(target: &[u8]) -> Result<(bool, Vec<CString>), Error> {
    let out = || Error::Denied("a link leads out of /workspace");
    let inside = match target.strip_prefix(b"/") {
        None => target,
        Some(rest) => {
            let start = rest.iter().position(|b| *b != b'/').ok_or_else(out)?;
            let rest = rest[start..].strip_prefix(b"workspace").ok_or_else(out)?;
            match rest.first() {
                None | Some(b'/') => rest,
                Some(_) => return Err(out()),
            }
        }
    };
    let names = inside.split(|b| *b == b'/').filter(|n| !matches!(*n, b"" | b"."));
    let names: Result<_, _> = names.map(CString::new).collect();
    Ok((target.starts_with(b"/"), names.map_err(|_| out())?))
}

/// What an opened thing is.
pub(crate) fn kind(fd: impl AsFd) -> Result<FileType, Error> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode))
}

/// Whether a link at `names` with this target stays inside, by its text alone.
pub(crate) fn stays_inside(names: &[CString], target: &[u8]) -> bool {
    let Ok((absolute, target)) = target_names(target) else { return false };
    let mut depth = if absolute { 0 } else { names.len().saturating_sub(1) };
    for name in target {
        match name.as_bytes() {
            b".." if depth == 0 => return false,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    true
}

/// Opens again, for reading, what was opened as a place and is known to be a file or directory.
/// It is the same thing, whatever its name means by now.
pub(crate) fn reopen(place: impl AsFd, flags: OFlags) -> Result<OwnedFd, Error> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", place.as_fd().as_raw_fd());
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}
