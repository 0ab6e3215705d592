//! The way that a path leads, name by name, among directories that have paths of their own.
//!
//! openat2 with RESOLVE_BENEATH knows one directory, and refuses every link that is absolute or
//! climbs above it. Where such a link may mean something (`/workspace/x`), the way is walked here:
//! each name is opened beneath the directory before it, and links are read and never followed by
//! the kernel. So whoever exchanges directories for links meanwhile changes what is found, and
//! nothing is found that does not lie in one of the directories given.

use crate::resolve::beneath;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Links on one way, as the kernel has it.
const LINKS: usize = 40;
/// Directories that are held open on one way.
const DEPTH: usize = 1024;
/// Names that links add to one way: nobody can be stopped while it is walked.
const NAMES: usize = 4096;

/// A directory that a way may lead into.
#[derive(Debug, Clone, Copy)]
pub struct Root<'a> {
    /// Its path as links have it: absolute.
    pub path: &'a [u8],
    /// The directory; `None`: only its path is there, and what it holds is the caller's to say.
    pub dir: Option<BorrowedFd<'a>>,
}

impl<'a> Root<'a> {
    fn names(&self) -> impl Iterator<Item = &'a [u8]> {
        steps(self.path)
    }
}

/// Where a way begins.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// The directory.
    pub dir: BorrowedFd<'a>,
    /// Which root it is or lies in.
    pub root: usize,
    /// It lies in that root, and what is above it is not known: nothing goes up from it.
    pub below: bool,
}

/// Where a way ends.
#[derive(Debug)]
pub enum Found {
    /// In a directory; what is there, if anything, may change at any time.
    Spot(Spot),
    /// Above all roots or beside them, or in one that has no directory: the names from `/`.
    Outside(Vec<CString>),
}

/// A name in a directory.
#[derive(Debug)]
pub struct Spot {
    /// Which root it lies in.
    pub root: usize,
    /// The names from there to the directory; from the start if `from_start`.
    pub above: Vec<CString>,
    /// The way never left for another root or for this one's top.
    pub from_start: bool,
    /// The directory, opened as a place.
    pub dir: OwnedFd,
    /// The name in it; `None`: the directory itself is meant.
    pub name: Option<CString>,
    /// The path, or a link at its end, says that it is a directory: `name/`.
    pub slash: bool,
}

/// Where somebody stands.
enum Here {
    Inside { root: usize, from_start: bool, dirs: Vec<OwnedFd>, names: Vec<CString> },
    Outside(Vec<CString>),
}

/// Walks from a directory along a path that is not absolute. Links on the way are followed as long
/// as they lead to one of the roots; the last name's only where `follow`, or a slash is after it.
///
/// # Errors
/// XDEV where the way leads out of all roots, LOOP after 40 links or 4096 names in them, and what
/// the kernel says.
pub fn walk(
    roots: &[Root<'_>],
    start: Start<'_>,
    path: &[u8],
    follow: bool,
) -> Result<Found, Errno> {
    let mut todo = VecDeque::from(owned(steps(path))?);
    let mut slash = is_directory(path);
    let mut links = 0;
    let mut left = NAMES;
    let mut here = Here::Inside {
        root: start.root,
        from_start: true,
        dirs: vec![place_at(start.dir, c".", OFlags::DIRECTORY)?],
        names: Vec::new(),
    };
    loop {
        here = match here {
            Here::Inside { .. } => here,
            Here::Outside(names) => outside(roots, names, &mut todo)?,
        };
        let (root, from_start, dirs, names) = match &mut here {
            Here::Outside(names) => return Ok(Found::Outside(std::mem::take(names))),
            Here::Inside { root, from_start, dirs, names } => (*root, *from_start, dirs, names),
        };
        let spot = |dir, above: &mut Vec<_>, name, slash| {
            let above = std::mem::take(above);
            Ok(Found::Spot(Spot { root, above, from_start, dir, name, slash }))
        };
        let Some(name) = todo.pop_front() else {
            return spot(dirs.pop().ok_or(Errno::NOENT)?, names, None, true);
        };
        let dir = dirs.last().ok_or(Errno::NOENT)?;
        if name.as_bytes() == b".." {
            if names.pop().is_some() {
                dirs.pop();
            } else if from_start && start.below {
                return Err(Errno::XDEV);
            } else {
                let path: Vec<&[u8]> = roots.get(root).ok_or(Errno::XDEV)?.names().collect();
                let above = path.split_last().map_or(&[][..], |(_, above)| above);
                here = Here::Outside(owned(above.iter().copied())?);
            }
            continue;
        }
        let last = todo.is_empty();
        let found = match place_at(dir, &name, OFlags::NOFOLLOW) {
            Err(Errno::NOENT) if last => {
                return spot(dir.try_clone().map_err(of)?, names, Some(name), slash);
            }
            found => found?,
        };
        match FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) {
            FileType::Symlink if !last || follow || slash => {
                links += 1;
                if links > LINKS {
                    return Err(Errno::LOOP);
                }
                let target = rustix::fs::readlinkat(&found, c"", Vec::new())?;
                put_before(&mut todo, target.as_bytes(), &mut left)?;
                slash |= last && is_directory(target.as_bytes());
                if target.as_bytes().starts_with(b"/") {
                    here = Here::Outside(Vec::new());
                }
            }
            _ if last => return spot(dir.try_clone().map_err(of)?, names, Some(name), slash),
            FileType::Directory if dirs.len() < DEPTH => {
                dirs.push(found);
                names.push(name);
            }
            FileType::Directory => return Err(Errno::NAMETOOLONG),
            _ => return Err(Errno::NOTDIR),
        }
    }
}

/// Goes on from outside of all roots: into one of them, or as far as there is anything.
fn outside(
    roots: &[Root<'_>],
    mut names: Vec<CString>,
    todo: &mut VecDeque<CString>,
) -> Result<Here, Errno> {
    loop {
        let whole = || names.iter().chain(todo.iter()).map(|name| name.as_bytes());
        let into = |root: &Root<'_>| {
            let mut there = whole();
            root.names().all(|name| there.next() == Some(name))
        };
        // A root may lie in another.
        let deep = |root: &Root<'_>| root.names().count();
        let root = (0..roots.len()).filter(|at| into(&roots[*at]));
        let root = root.filter(|at| deep(&roots[*at]) >= names.len());
        if let Some(root) = root.max_by_key(|at| deep(&roots[*at]))
            && let Some(dir) = roots[root].dir
        {
            todo.drain(..deep(&roots[root]) - names.len());
            let dirs = vec![place_at(dir, c".", OFlags::DIRECTORY)?];
            return Ok(Here::Inside { root, from_start: false, dirs, names: Vec::new() });
        }
        let Some(name) = todo.pop_front() else { return Ok(Here::Outside(names)) };
        if name.as_bytes() == b".." {
            // What is above `/` is `/`.
            names.pop();
            continue;
        }
        names.push(name);
        let on_the_way = |root: &Root<'_>| {
            let mut there = root.names();
            names.iter().all(|name| there.next() == Some(name.as_bytes()))
        };
        if !todo.is_empty() && !roots.iter().any(on_the_way) {
            return Err(Errno::XDEV);
        }
    }
}

fn place_at(dir: impl AsFd, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    beneath(dir, name, OFlags::PATH | flags, Mode::empty())
}

fn of(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// The names of a path, without those that lead nowhere.
fn steps(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|b| *b == b'/').filter(|name| !matches!(*name, b"" | b"."))
}

fn owned<'a>(names: impl Iterator<Item = &'a [u8]>) -> Result<Vec<CString>, Errno> {
    names.map(|name| CString::new(name).map_err(|_| Errno::INVAL)).collect()
}

/// Goes along `path` first. `left`: as many names may still come.
fn put_before(todo: &mut VecDeque<CString>, path: &[u8], left: &mut usize) -> Result<(), Errno> {
    let names = owned(steps(path))?;
    *left = left.checked_sub(names.len()).ok_or(Errno::LOOP)?;
    for name in names.into_iter().rev() {
        todo.push_front(name);
    }
    Ok(())
}

/// Whether a path can only mean a directory.
fn is_directory(path: &[u8]) -> bool {
    path.ends_with(b"/") || path == b"." || path.ends_with(b"/.")
}
