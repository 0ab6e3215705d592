//! Ways that leave a place for another one: by a link to `/workspace/x`, or by `..`.
//!
//! The kernel resolves a path beneath one directory, and says XDEV where a link leads out of it.
//! Only then is the way walked here ([`workspace::way`]), among the places that the guest has; what
//! is found is as writable, and counts to the same quota, as the place that it lies in.

use super::errno::Errno;
use super::fds::Location;
use super::places::{DEV, PlaceKind, Places, ROOT, beneath};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno as Host;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use workspace::way::{Found, Root, Start, walk};

/// How often a way is walked again whose end became a link when it was there.
const TRIES: usize = 16;

/// What lies at the end of a way, opened as a place.
pub(crate) enum End {
    Host {
        fd: OwnedFd,
        at: Location,
        writable: bool,
    },
    /// In `/` or `/dev`.
    Virtual {
        dev: bool,
        path: Vec<u8>,
    },
}

/// Where a way ends.
pub(crate) enum Way {
    /// At a name in a directory of the host's; the name is no link that is to be followed.
    Host {
        dir: OwnedFd,
        /// `.`: the directory itself.
        name: Vec<u8>,
        /// Where the directory lies.
        at: Location,
        writable: bool,
        /// What is there has to be a directory.
        slash: bool,
    },
    /// In `/` or `/dev`.
    Virtual { place: usize, dev: bool, path: Vec<u8> },
}

impl Places {
    /// Walks a path of which the kernel said that it leads out of the directory that it starts
    /// from, and does something at its end; again, where that became a link meanwhile.
    pub(crate) fn far<T>(
        &self,
        dir: BorrowedFd<'_>,
        at: &Location,
        path: &[u8],
        follow: bool,
        mut at_end: impl FnMut(&Way) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut tries = 0;
        loop {
            let way = self.walk(dir, at, path, follow)?;
            match at_end(&way) {
                // The host says so of a link that is not followed.
                Err(Errno::LOOP | Errno::NOTDIR)
                    if tries < TRIES && (follow || way.slash()) && way.is_link() =>
                {
                    tries += 1;
                }
                done => return done,
            }
        }
    }

    /// The same, and opens what is there as a place; a link where `flags` say so.
    pub(crate) fn far_place(
        &self,
        dir: BorrowedFd<'_>,
        at: &Location,
        path: &[u8],
        flags: OFlags,
    ) -> Result<End, Errno> {
        let follow = !flags.contains(OFlags::NOFOLLOW);
        self.far(dir, at, path, follow, |way| match way {
            Way::Host { dir, name, at, writable, slash } => {
                let mut flags = flags | OFlags::PATH | OFlags::NOFOLLOW;
                flags.set(OFlags::DIRECTORY, *slash || flags.contains(OFlags::DIRECTORY));
                let fd = beneath(dir.as_fd(), name, flags, Mode::empty())?;
                let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
                if follow && kind == FileType::Symlink {
                    return Err(Errno::LOOP);
                }
                Ok(End::Host { fd, at: at.join(name), writable: *writable })
            }
            Way::Virtual { dev, path, .. } => Ok(End::Virtual { dev: *dev, path: path.clone() }),
        })
    }

    fn walk(
        &self,
        dir: BorrowedFd<'_>,
        at: &Location,
        path: &[u8],
        follow: bool,
    ) -> Result<Way, Errno> {
        // Its libc makes of an absolute path one from a place; a guest that does not gets none.
        if path.starts_with(b"/") {
            return Err(Errno::PERM);
        }
        let roots = self.iter().map(|place| Root {
            path: &place.name,
            dir: match &place.kind {
                PlaceKind::Host { dir, .. } => Some(dir.as_fd()),
                PlaceKind::Root | PlaceKind::Dev => None,
            },
        });
        let roots: Vec<_> = roots.collect();
        let start = Start { dir, root: at.place, below: !at.path.is_empty() };
        let spot = match walk(&roots, start, path, follow) {
            Ok(Found::Spot(spot)) => spot,
            Err(Host::XDEV) => return Err(Errno::PERM),
            Err(error) => return Err(error.into()),
            Ok(Found::Outside(names)) => {
                let path: Vec<_> = names.iter().map(|name| name.as_bytes()).collect();
                return match path.split_first() {
                    None => Ok(Way::Virtual { place: ROOT, dev: false, path: Vec::new() }),
                    Some((&b"dev", rest)) => {
                        Ok(Way::Virtual { place: DEV, dev: true, path: rest.join(&b'/') })
                    }
                    _ => Err(Errno::PERM),
                };
            }
        };
        let above: Vec<_> = spot.above.iter().map(|name| name.as_bytes()).collect();
        let above = above.join(&b'/');
        let top = Location { place: spot.root, path: Vec::new() };
        Ok(Way::Host {
            dir: spot.dir,
            name: spot.name.map_or_else(|| b".".to_vec(), Vec::from),
            at: if spot.from_start { at.join(&above) } else { top.join(&above) },
            writable: self.writable(spot.root),
            slash: spot.slash,
        })
    }
}

impl Way {
    fn slash(&self) -> bool {
        matches!(self, Way::Host { slash: true, .. })
    }

    fn is_link(&self) -> bool {
        let Way::Host { dir, name, .. } = self else { return false };
        let stat = rustix::fs::statat(dir, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    }
}
