//! Opening: the one way by which a guest comes to hold a file.

use super::errno::Errno;
use super::fds::{Entry, Kind, Location, Start, host_flags};
use super::mem::Mem;
use super::places::{WORKSPACE, beneath};
use super::rights;
use super::room::{length, weight};
use super::stat::{FileKind, kind_of};
use super::ways::Way;
use super::{Room, Wasi};
use rustix::fs::{Mode, OFlags, Stat};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Follow a link in the last step.
pub(crate) const FOLLOW: u32 = 1;

const CREATE: u32 = 1;
const DIRECTORY: u32 = 2;
const EXCLUSIVE: u32 = 4;
const TRUNCATE: u32 = 8;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub read: bool,
    pub write: bool,
}

impl Access {
    pub(crate) fn of(rights: u64) -> Self {
        Access { read: rights & rights::READING != 0, write: rights & rights::WRITING != 0 }
    }

    fn flags(self) -> OFlags {
        match (self.read, self.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        }
    }
}

/// A file (`dir: false`) or directory that was opened.
pub(crate) struct Opened {
    pub fd: OwnedFd,
    pub dir: bool,
    pub stat: Stat,
}

/// Opens a regular file or a directory beneath `from`, and nothing else: a pipe, a socket or a
/// device is let go of at once, and none of them can make this wait.
pub(crate) fn open_checked(
    from: BorrowedFd<'_>,
    path: &[u8],
    access: Access,
    flags: OFlags,
    dir: bool,
) -> Result<Opened, Errno> {
    let mode = if flags.contains(OFlags::CREATE) { Mode::from(0o644) } else { Mode::empty() };
    // A directory is only ever read.
    let access = if dir { OFlags::RDONLY } else { access.flags() };
    let all = access | flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = match beneath(from, path, all, mode) {
        // One that may be walked but not listed.
        Err(Errno::ACCES) if dir => beneath(from, path, flags | OFlags::PATH, mode)?,
        other => other?,
    };
    let stat = rustix::fs::fstat(&fd)?;
    let dir = match kind_of(stat.st_mode) {
        FileKind::Directory => true,
        FileKind::Regular => false,
        _ => return Err(Errno::ACCES),
    };
    Ok(Opened { fd, dir, stat })
}

impl Wasi {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn path_open(
        &mut self,
        mem: &mut Mem<'_>,
        dirfd: u32,
        lookup: u32,
        path: u32,
        path_len: u32,
        oflags: u32,
        base: u64,
        inheriting: u64,
        fdflags: u32,
        out: u32,
    ) -> Result<(), Errno> {
        let path = mem.get(path, path_len)?.to_vec();
        // Nothing is opened, let alone made, for an answer that cannot be given.
        mem.get(out, 4)?;
        self.fds.check_room()?;
        let flags = (fdflags & 31) as u16;
        let kind = match self.fds.start(dirfd)? {
            Start::Virtual { place, dev } => open_virtual(place, dev, &path, oflags)?,
            Start::Host { dir, at, writable } => {
                let mut access = Access::of(base);
                access.write |= oflags & TRUNCATE != 0;
                let mut host = host_flags(flags);
                host.set(OFlags::NOFOLLOW, lookup & FOLLOW == 0);
                host.set(OFlags::DIRECTORY, oflags & DIRECTORY != 0);
                let want = Want { access, host, oflags };
                match want.open(dir, &at, &path, writable, &mut self.room) {
                    Err(Errno::XDEV) => {
                        let (places, room) = (&self.fds.places, &mut self.room);
                        places
                            .far(dir, &at, &path, want.follows(), |way| want.open_far(way, room))?
                    }
                    opened => opened?,
                }
            }
        };
        let rights = base & rights::ALL;
        let entry = Entry { kind, rights, inheriting: inheriting & rights::ALL, flags };
        let fd = self.fds.insert(entry)?;
        mem.put_u32(out, fd)
    }
}

/// What an open asks for.
#[derive(Clone, Copy)]
struct Want {
    access: Access,
    host: OFlags,
    oflags: u32,
}

impl Want {
    /// Opens beneath a directory. XDEV: the way leads out of it, and nothing was done.
    fn open(
        self,
        dir: BorrowedFd<'_>,
        at: &Location,
        path: &[u8],
        writable: bool,
        room: &mut Room,
    ) -> Result<Kind, Errno> {
        let Want { access, host, oflags } = self;
        if !writable && access.write && oflags & DIRECTORY == 0 {
            return Err(Errno::ROFS);
        }
        let quota = at.place == WORKSPACE;
        let open = |flags| open_checked(dir, path, access, flags, oflags & DIRECTORY != 0);
        let opened = if oflags & CREATE == 0 {
            open(host)?
        } else if !writable {
            open(host).map_err(|e| if e == Errno::NOENT { Errno::ROFS } else { e })?
        } else {
            create(open, host, oflags & EXCLUSIVE != 0, quota.then_some(&mut *room))?
        };
        if oflags & TRUNCATE != 0 && !opened.dir && length(&opened.stat) > 0 {
            rustix::fs::ftruncate(&opened.fd, 0)?;
            if quota {
                room.give(weight(&opened.stat));
            }
        }
        let at = at.join(path);
        Ok(match opened.dir {
            true => Kind::Dir { at, fd: opened.fd, names: None },
            false => Kind::File { at, fd: opened.fd, offset: 0 },
        })
    }

    /// Whether a link at the end is followed.
    fn follows(self) -> bool {
        let exclusive = self.oflags & (CREATE | EXCLUSIVE) == CREATE | EXCLUSIVE;
        !self.host.contains(OFlags::NOFOLLOW) && !exclusive
    }

    /// Opens what is at the end of a way that led to another place.
    fn open_far(mut self, way: &Way, room: &mut Room) -> Result<Kind, Errno> {
        match way {
            Way::Host { dir, name, at, writable, slash } => {
                if *slash && self.oflags & CREATE != 0 {
                    return Err(Errno::ISDIR);
                }
                self.host |= OFlags::NOFOLLOW;
                self.host.set(OFlags::DIRECTORY, *slash || self.host.contains(OFlags::DIRECTORY));
                self.open(dir.as_fd(), at, name, *writable, room)
            }
            Way::Virtual { place, dev, path } => open_virtual(*place, *dev, path, self.oflags),
        }
    }
}

/// Opens a file and makes it if it is not there; a file that is made takes an entry.
fn create(
    open: impl Fn(OFlags) -> Result<Opened, Errno>,
    flags: OFlags,
    exclusive: bool,
    mut room: Option<&mut Room>,
) -> Result<Opened, Errno> {
    if !exclusive {
        match open(flags) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
    }
    if let Some(room) = &mut room {
        room.take_entry()?;
    }
    let made = match open(flags | OFlags::CREATE | OFlags::EXCL) {
        // Made by another meanwhile, or a link to what is not there.
        Err(Errno::EXIST) if !exclusive => open(flags | OFlags::CREATE),
        made => made,
    };
    if let (Err(_), Some(room)) = (&made, &mut room) {
        room.give_entry();
    }
    made
}

fn open_virtual(place: usize, dev: bool, path: &[u8], oflags: u32) -> Result<Kind, Errno> {
    let clean = Location { place, path: Vec::new() }.join(path).path;
    match clean.as_slice() {
        b"" if oflags & (CREATE | EXCLUSIVE) == CREATE | EXCLUSIVE => Err(Errno::EXIST),
        b"" if oflags & TRUNCATE != 0 => Err(Errno::ISDIR),
        b"" => Ok(Kind::Place { place, names: None }),
        b"null" if dev && oflags & DIRECTORY != 0 => Err(Errno::NOTDIR),
        b"null" if dev && oflags & EXCLUSIVE != 0 => Err(Errno::EXIST),
        b"null" if dev => Ok(Kind::Null),
        _ if oflags & CREATE != 0 => Err(Errno::ROFS),
        _ => Err(Errno::NOENT),
    }
}
