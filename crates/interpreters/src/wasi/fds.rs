//! The table of open descriptors.

use super::errno::Errno;
use super::places::{FIRST, Last, PlaceKind, Places, WORKSPACE};
use super::rights;
use super::room::{length, same_file};
use super::stat::{FileKind, kind_of};
use rustix::fs::{OFlags, Stat};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use types::Stream;

/// Most open descriptors of a guest.
pub(crate) const FDS_MAX: usize = 256;

/// Where something was opened: a place, and the way from there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    pub place: usize,
    pub path: Vec<u8>,
}

impl Location {
    /// `path` as seen from here, without empty and `.` steps.
    pub(crate) fn join(&self, path: &[u8]) -> Location {
        let steps = self.path.split(|b| *b == b'/').chain(path.split(|b| *b == b'/'));
        let steps: Vec<&[u8]> = steps.filter(|step| !step.is_empty() && *step != b".").collect();
        Location { place: self.place, path: steps.join(&b'/') }
    }

    /// Follows the guest's own move of `old` to `new`, where this is or lies in it.
    pub(crate) fn moved(&mut self, old: &Location, new: &Location) {
        if self.place != old.place {
            return;
        }
        let rest = match self.path.strip_prefix(old.path.as_slice()) {
            Some(b"") => b"".as_slice(),
            Some(rest) if rest[0] == b'/' => rest,
            _ => return,
        };
        *self = Location { place: new.place, path: [new.path.as_slice(), rest].concat() };
    }
}

/// A name in a directory.
pub(crate) struct Name {
    pub name: Vec<u8>,
    pub ino: u64,
    pub kind: u8,
}

pub(crate) enum Kind {
    Stdin,
    Out(Stream),
    /// `/dev/null`.
    Null,
    /// A place itself, or a directory without a counterpart on the host.
    Place {
        place: usize,
        names: Option<Vec<Name>>,
    },
    Dir {
        at: Location,
        fd: OwnedFd,
        /// What it held when the guest began to read it.
        names: Option<Vec<Name>>,
    },
    File {
        at: Location,
        fd: OwnedFd,
        offset: u64,
    },
    /// It was open when a snapshot was taken, and is not there any more.
    Lost(Box<super::saved::SavedFd>),
}

pub(crate) struct Entry {
    pub kind: Kind,
    pub rights: u64,
    pub inheriting: u64,
    /// As in preview 1: append 1, dsync 2, nonblock 4, rsync 8, sync 16.
    pub flags: u16,
}

impl Entry {
    pub(crate) fn need(&self, right: u64) -> Result<(), Errno> {
        if self.rights & right == right { Ok(()) } else { Err(Errno::BADF) }
    }
}

/// The append flag of a descriptor.
pub(crate) const APPEND: u16 = 1;

/// The flags of the host for those of preview 1.
pub(crate) fn host_flags(flags: u16) -> OFlags {
    let mut host = OFlags::empty();
    host.set(OFlags::APPEND, flags & APPEND != 0);
    host.set(OFlags::DSYNC, flags & 2 != 0);
    host.set(OFlags::SYNC, flags & (8 | 16) != 0);
    host
}

/// The open descriptors of a guest.
pub(crate) struct Fds {
    pub entries: BTreeMap<u32, Entry>,
    pub places: Places,
}

impl Fds {
    /// The standard streams and the places.
    pub(crate) fn new(places: Places) -> Self {
        let kinds = [Kind::Stdin, Kind::Out(Stream::Stdout), Kind::Out(Stream::Stderr)];
        let places_of = (0..places.len()).map(|place| Kind::Place { place, names: None });
        let entries = kinds.into_iter().chain(places_of).map(Entry::initial);
        Fds { entries: (0..).zip(entries).collect(), places }
    }

    /// Whether this number holds what it held at first.
    pub(crate) fn is_initial(&self, fd: u32) -> bool {
        match (fd, self.entries.get(&fd).map(|entry| &entry.kind)) {
            (0, Some(Kind::Stdin)) | (1, Some(Kind::Out(Stream::Stdout))) => true,
            (2, Some(Kind::Out(Stream::Stderr))) => true,
            (fd, Some(Kind::Place { place, .. })) => *place as u32 + FIRST == fd,
            _ => false,
        }
    }

    pub(crate) fn get(&mut self, fd: u32) -> Result<&mut Entry, Errno> {
        let entry = self.entries.get_mut(&fd).ok_or(Errno::BADF)?;
        match entry.kind {
            Kind::Lost(_) => Err(Errno::IO),
            _ => Ok(entry),
        }
    }

    /// Whether another one may be opened.
    pub(crate) fn check_room(&self) -> Result<(), Errno> {
        if self.entries.len() < FDS_MAX { Ok(()) } else { Err(Errno::MFILE) }
    }

    /// Gives it the lowest number that is free.
    pub(crate) fn insert(&mut self, entry: Entry) -> Result<u32, Errno> {
        self.check_room()?;
        let fd = (0..).find(|fd| !self.entries.contains_key(fd)).ok_or(Errno::MFILE)?;
        self.entries.insert(fd, entry);
        Ok(fd)
    }

    /// Its libc looks for the places once, and would have none of them ever again.
    fn check_stays(&self, fd: u32) -> Result<(), Errno> {
        if fd >= FIRST && self.is_initial(fd) { Err(Errno::PERM) } else { Ok(()) }
    }

    /// Standard streams that were closed are open again.
    pub(crate) fn reopen(&mut self) {
        let streams = [Kind::Stdin, Kind::Out(Stream::Stdout), Kind::Out(Stream::Stderr)];
        for (fd, kind) in (0..).zip(streams) {
            self.entries.entry(fd).or_insert_with(|| Entry::initial(kind));
        }
    }

    pub(crate) fn close(&mut self, fd: u32) -> Result<(), Errno> {
        self.check_stays(fd)?;
        self.entries.remove(&fd).map(drop).ok_or(Errno::BADF)
    }

    pub(crate) fn renumber(&mut self, from: u32, to: u32) -> Result<(), Errno> {
        if !self.entries.contains_key(&to) {
            return Err(Errno::BADF);
        }
        self.check_stays(from)?;
        self.check_stays(to)?;
        let entry = self.entries.remove(&from).ok_or(Errno::BADF)?;
        self.entries.insert(to, entry);
        Ok(())
    }

    /// How many names are kept of directories that are being read.
    pub(crate) fn names(&self) -> usize {
        let kept = self.entries.values().map(|entry| match &entry.kind {
            Kind::Dir { names: Some(names), .. } | Kind::Place { names: Some(names), .. } => {
                names.len()
            }
            _ => 0,
        });
        kept.sum()
    }

    /// Keeps no names any more.
    pub(crate) fn forget_names(&mut self) {
        for entry in self.entries.values_mut() {
            if let Kind::Dir { names, .. } | Kind::Place { names, .. } = &mut entry.kind {
                *names = None;
            }
        }
    }

    /// Bytes of files of the workspace that are open and have no name any more.
    pub(crate) fn held(&self) -> u64 {
        // One may be open more than once.
        let mut files = BTreeMap::new();
        for entry in self.entries.values() {
            if let Kind::File { at: Location { place: WORKSPACE, .. }, fd, .. } = &entry.kind
                && let Ok(stat) = rustix::fs::fstat(fd)
                && stat.st_nlink == 0
            {
                files.insert((stat.st_dev, stat.st_ino), length(&stat));
            }
        }
        files.into_values().fold(0, u64::saturating_add)
    }

    /// Follows a move in the places of everything that is open. `what`: what was moved; it may have
    /// been opened by another way, through links.
    pub(crate) fn moved(&mut self, old: &Location, new: &Location, what: Option<&Stat>) {
        // A further name stays where it is, and so does what was opened by it.
        let only =
            |stat: &&Stat| kind_of(stat.st_mode) == FileKind::Directory || stat.st_nlink == 1;
        let what = what.filter(only);
        let is_it = |fd: &OwnedFd| {
            what.is_some_and(|what| rustix::fs::fstat(fd).is_ok_and(|it| same_file(&it, what)))
        };
        for entry in self.entries.values_mut() {
            if let Kind::Dir { at, fd, .. } | Kind::File { at, fd, .. } = &mut entry.kind {
                match is_it(fd) {
                    true => *at = new.clone(),
                    false => at.moved(old, new),
                }
            }
        }
    }
}

impl Entry {
    fn initial(kind: Kind) -> Self {
        let rights = match kind {
            Kind::Place { .. } => rights::ALL,
            _ => rights::STREAM,
        };
        Entry { kind, rights, inheriting: rights::ALL, flags: 0 }
    }
}

/// A directory that a path starts from.
pub(crate) enum Start<'a> {
    Host {
        dir: BorrowedFd<'a>,
        at: Location,
        writable: bool,
    },
    /// `/` (`false`) or `/dev` (`true`).
    Virtual {
        place: usize,
        dev: bool,
    },
}

impl<'a> Start<'a> {
    /// The directory, where a guest may change what lies in it.
    pub(crate) fn writable(self) -> Result<(BorrowedFd<'a>, Location), Errno> {
        match self {
            Start::Host { dir, at, writable: true } => Ok((dir, at)),
            _ => Err(Errno::ROFS),
        }
    }
}

impl Fds {
    /// The directory behind a descriptor.
    pub(crate) fn start(&self, fd: u32) -> Result<Start<'_>, Errno> {
        let entry = self.entries.get(&fd).ok_or(Errno::BADF)?;
        match &entry.kind {
            Kind::Place { place, .. } => match &self.place(*place)?.kind {
                PlaceKind::Host { dir, writable } => Ok(Start::Host {
                    dir: dir.as_fd(),
                    at: Location { place: *place, path: Vec::new() },
                    writable: *writable,
                }),
                PlaceKind::Root => Ok(Start::Virtual { place: *place, dev: false }),
                PlaceKind::Dev => Ok(Start::Virtual { place: *place, dev: true }),
            },
            Kind::Dir { at, fd, .. } => Ok(Start::Host {
                dir: fd.as_fd(),
                at: at.clone(),
                writable: self.writable(at.place)?,
            }),
            Kind::Lost(_) => Err(Errno::IO),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// The last name of a path from a descriptor's directory, and where it lies.
    pub(crate) fn last<'a>(&'a self, fd: u32, path: &'a [u8]) -> Result<Last<'a>, Errno> {
        self.places.last(self.start(fd)?, path)
    }

    fn place(&self, place: usize) -> Result<&super::places::Place, Errno> {
        self.places.get(place).ok_or(Errno::BADF)
    }

    /// Whether a guest may change what lies in a place.
    pub(crate) fn writable(&self, place: usize) -> Result<bool, Errno> {
        self.place(place).map(|_| self.places.writable(place))
    }
}
