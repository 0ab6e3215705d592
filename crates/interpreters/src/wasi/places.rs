//! The directories that a guest was given: always the same ones at the same numbers, as its libc
//! looks at them once and keeps what it saw.

use super::errno::Errno;
use super::fds::{Location, Start};
use super::room::Shared;
use super::ways::End;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Number of the first of them.
pub(crate) const FIRST: u32 = 3;
/// Place of `/workspace`.
pub(crate) const WORKSPACE: usize = 0;
/// Place of `/`.
pub(crate) const ROOT: usize = 2;
/// Place of `/dev`.
pub(crate) const DEV: usize = 3;
/// Longest path that is looked at, bytes.
const PATH_MAX: usize = 4096;
/// How often a path is resolved again when directories above it are moved meanwhile.
const RETRIES: usize = 64;

/// The directories that a guest was given. Clones share what is open.
#[derive(Clone)]
pub struct Places {
    all: Arc<Vec<Place>>,
    room: Arc<Shared>,
}

/// One of them.
pub(crate) struct Place {
    /// Its path in the guest.
    pub name: Vec<u8>,
    pub kind: PlaceKind,
}

pub(crate) enum PlaceKind {
    /// A directory of the host's.
    Host { dir: OwnedFd, writable: bool },
    /// `/`: it shows the others' first names and holds nothing.
    Root,
    /// `/dev`: it holds `null`.
    Dev,
}

impl Places {
    /// `/workspace`, `/tmp`, `/`, `/dev`, and then read-only directories by their paths in the
    /// guest. All are directories that are open (for reading, or as paths only).
    pub fn new(
        workspace: OwnedFd,
        tmp: OwnedFd,
        read_only: impl IntoIterator<Item = (String, OwnedFd)>,
    ) -> Self {
        let host = |name: &str, dir, writable| Place {
            name: name.as_bytes().to_vec(),
            kind: PlaceKind::Host { dir, writable },
        };
        let mut places = vec![host("/workspace", workspace, true), host("/tmp", tmp, true)];
        places.push(Place { name: b"/".to_vec(), kind: PlaceKind::Root });
        places.push(Place { name: b"/dev".to_vec(), kind: PlaceKind::Dev });
        places.extend(read_only.into_iter().map(|(name, dir)| host(&name, dir, false)));
        Places { all: Arc::new(places), room: Arc::default() }
    }

    /// Opens a directory to give to a guest.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn open(path: &Path) -> io::Result<OwnedFd> {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    /// The same, with a workspace that is the one of `others` too.
    pub(crate) fn beside(mut self, others: &Arc<Shared>) -> Self {
        self.room = others.clone();
        self
    }

    /// What may be written to the workspace.
    pub(crate) fn room(&self) -> &Arc<Shared> {
        &self.room
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Place> {
        self.all.get(index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.all.iter()
    }

    /// Whether a guest may change what lies in a place.
    pub(crate) fn writable(&self, index: usize) -> bool {
        matches!(self.get(index), Some(Place { kind: PlaceKind::Host { writable: true, .. }, .. }))
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// First names of all places: what `/` shows.
    pub(crate) fn names(&self) -> Vec<Vec<u8>> {
        let first = |name: &[u8]| name.split(|b| *b == b'/').nth(1).unwrap_or(b"").to_vec();
        let mut names: Vec<_> = self.all.iter().map(|place| first(&place.name)).collect();
        names.retain(|name| !name.is_empty());
        names.sort();
        names.dedup();
        names
    }
}

/// Opens what lies at `path` beneath `dir`, and nothing outside of it, whatever links say and
/// whoever moves directories meanwhile. XDEV: the way leads out, maybe to another place of the
/// guest's ([`Places::far`]).
pub(crate) fn beneath(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    if path.len() > PATH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut left = RETRIES;
    loop {
        match rustix::fs::openat2(dir, path, flags | OFlags::CLOEXEC, mode, resolve) {
            Ok(fd) => return Ok(fd),
            Err(io::Errno::AGAIN | io::Errno::INTR) if left > 0 => left -= 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// The directory in which the last name of a path lies.
pub(crate) enum Parent<'a> {
    Same(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Parent::Same(fd) => *fd,
            Parent::Below(fd) => fd.as_fd(),
        }
    }
}

/// The last name of a path, the open directory that it lies in, and whether slashes followed it.
pub(crate) struct Last<'a> {
    pub parent: Parent<'a>,
    pub name: &'a [u8],
    pub slash: bool,
    /// Where the way to it begins, and that way.
    from: Location,
    path: &'a [u8],
    pub writable: bool,
}

impl Last<'_> {
    /// The place that it lies in.
    pub fn place(&self) -> usize {
        self.from.place
    }

    /// Where it lies.
    pub fn at(&self) -> Location {
        self.from.join(self.path)
    }

    /// The same, where a guest may change what lies there.
    pub fn changeable(self) -> Result<Self, Errno> {
        if self.writable { Ok(self) } else { Err(Errno::ROFS) }
    }
}

impl Places {
    /// Splits a path for a call that makes, removes or moves its last name.
    pub(crate) fn last<'a>(&self, start: Start<'a>, path: &'a [u8]) -> Result<Last<'a>, Errno> {
        // What `/` and `/dev` hold stays as it is, and is no link.
        let Start::Host { dir, at, writable } = start else { return Err(Errno::ROFS) };
        let end = path.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
        let (trimmed, slash) = (&path[..end], end < path.len());
        if trimmed.is_empty() {
            return Err(if path.is_empty() { Errno::NOENT } else { Errno::PERM });
        }
        let (above, name) = match trimmed.iter().rposition(|b| *b == b'/') {
            Some(at) => (&trimmed[..=at], &trimmed[at + 1..]),
            None => (&trimmed[..0], trimmed),
        };
        if name == b"." || name == b".." {
            return Err(Errno::INVAL);
        }
        if above.is_empty() {
            let parent = Parent::Same(dir);
            return Ok(Last { parent, name, slash, from: at, path: trimmed, writable });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match beneath(dir, above, flags, Mode::empty()) {
            Err(Errno::XDEV) => match self.far_place(dir, &at, above, flags)? {
                End::Host { fd, at: from, writable } => {
                    let parent = Parent::Below(fd);
                    Ok(Last { parent, name, slash, from, path: name, writable })
                }
                End::Virtual { .. } => Err(Errno::ROFS),
            },
            parent => {
                let parent = Parent::Below(parent?);
                Ok(Last { parent, name, slash, from: at, path: trimmed, writable })
            }
        }
    }
}
