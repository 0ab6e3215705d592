//! Making, moving and removing names.

use super::Wasi;
use super::errno::Errno;
use super::fds::{Location, Start};
use super::mem::Mem;
use super::paths::FOLLOW;
use super::places::{Last, WORKSPACE};
use super::room::{same_file, weight};
use super::stat::{FileKind, kind_of};
use rustix::fs::{AtFlags, Mode, Stat};

/// Longest target of a symbolic link, bytes.
const TARGET_MAX: u32 = 4095;

/// What a name stands for, if anything.
fn stat(last: &Last<'_>) -> Option<Stat> {
    rustix::fs::statat(&last.parent, last.name, AtFlags::SYMLINK_NOFOLLOW).ok()
}

/// What goes when a name goes beside its entry: its bytes if it is the file's only name.
fn bytes(stat: &Stat) -> u64 {
    let only = kind_of(stat.st_mode) == FileKind::Regular && stat.st_nlink == 1;
    if only { weight(stat) } else { 0 }
}

impl Wasi {
    fn gone(&mut self, place: usize, bytes: Option<u64>) {
        if let (WORKSPACE, Some(bytes)) = (place, bytes) {
            self.room.give_entry();
            self.room.give(bytes);
            // It may be open: then it only is no part of the workspace any more.
            self.count_held();
        }
    }

    /// Makes something that takes an entry of the workspace.
    fn make<'a>(
        &'a mut self,
        dirfd: u32,
        path: &'a [u8],
        make: impl FnOnce(&Last<'a>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let last = self.fds.last(dirfd, path)?.changeable()?;
        if last.place() != WORKSPACE {
            return make(&last);
        }
        self.room.take_entry()?;
        make(&last).inspect_err(|_| self.room.give_entry())
    }

    pub(crate) fn path_create_directory(
        &mut self,
        mem: &mut Mem<'_>,
        dirfd: u32,
        path: u32,
        path_len: u32,
    ) -> Result<(), Errno> {
        let path = mem.get(path, path_len)?;
        if let Start::Virtual { place, .. } = self.fds.start(dirfd)? {
            let clean = Location { place, path: Vec::new() }.join(path).path;
            return Err(if clean.is_empty() { Errno::EXIST } else { Errno::ROFS });
        }
        self.make(dirfd, path, |last| {
            Ok(rustix::fs::mkdirat(&last.parent, last.name, Mode::from(0o755))?)
        })
        // `.` and `..` are there.
        .map_err(|e| if e == Errno::INVAL { Errno::EXIST } else { e })
    }

    pub(crate) fn path_symlink(
        &mut self,
        mem: &mut Mem<'_>,
        target: u32,
        target_len: u32,
        dirfd: u32,
        path: u32,
        path_len: u32,
    ) -> Result<(), Errno> {
        if target_len > TARGET_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        let (target, path) = (mem.get(target, target_len)?, mem.get(path, path_len)?);
        self.make(dirfd, path, |last| match last.slash {
            true => Err(Errno::NOENT),
            // Where it points does not matter: nobody follows it out of the workspace.
            false => Ok(rustix::fs::symlinkat(target, &last.parent, last.name)?),
        })
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn path_link(
        &mut self,
        mem: &mut Mem<'_>,
        old_fd: u32,
        lookup: u32,
        old: u32,
        old_len: u32,
        new_fd: u32,
        new: u32,
        new_len: u32,
    ) -> Result<(), Errno> {
        let (old, new) = (mem.get(old, old_len)?, mem.get(new, new_len)?);
        let from = self.fds.last(old_fd, old)?.changeable()?;
        let to = self.fds.last(new_fd, new)?.changeable()?;
        if from.slash || to.slash {
            return Err(Errno::NOTDIR);
        }
        if from.place() != to.place() {
            return Err(Errno::XDEV);
        }
        let stat = rustix::fs::statat(&from.parent, from.name, AtFlags::SYMLINK_NOFOLLOW)?;
        match kind_of(stat.st_mode) {
            FileKind::Regular => {}
            FileKind::Link if lookup & FOLLOW == 0 => {}
            FileKind::Link => return Err(Errno::LOOP),
            _ => return Err(Errno::PERM),
        }
        let quota = to.place() == WORKSPACE;
        if quota {
            self.room.take_entry()?;
        }
        let flags = AtFlags::empty();
        let made = rustix::fs::linkat(&from.parent, from.name, &to.parent, to.name, flags);
        if made.is_err() && quota {
            self.room.give_entry();
        }
        Ok(made?)
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn path_readlink(
        &mut self,
        mem: &mut Mem<'_>,
        dirfd: u32,
        path: u32,
        path_len: u32,
        buf: u32,
        buf_len: u32,
        used: u32,
    ) -> Result<(), Errno> {
        let path = mem.get(path, path_len)?;
        // `/` and `/dev`, which cannot be changed, hold no links.
        let none = |e| if e == Errno::ROFS { Errno::INVAL } else { e };
        let last = self.fds.last(dirfd, path).map_err(none)?;
        let target = rustix::fs::readlinkat(&last.parent, last.name, Vec::new())?.into_bytes();
        let len = target.len().min(buf_len as usize);
        mem.put(buf, &target[..len])?;
        mem.put_u32(used, len as u32)
    }

    pub(crate) fn path_remove_directory(
        &mut self,
        mem: &mut Mem<'_>,
        dirfd: u32,
        path: u32,
        path_len: u32,
    ) -> Result<(), Errno> {
        let path = mem.get(path, path_len)?;
        let last = self.fds.last(dirfd, path)?.changeable()?;
        rustix::fs::unlinkat(&last.parent, last.name, AtFlags::REMOVEDIR)?;
        self.gone(last.place(), Some(0));
        Ok(())
    }

    pub(crate) fn path_unlink_file(
        &mut self,
        mem: &mut Mem<'_>,
        dirfd: u32,
        path: u32,
        path_len: u32,
    ) -> Result<(), Errno> {
        let path = mem.get(path, path_len)?;
        let last = self.fds.last(dirfd, path)?.changeable()?;
        if last.slash {
            return Err(Errno::NOTDIR);
        }
        let (bytes, place) = (stat(&last).as_ref().map(bytes), last.place());
        rustix::fs::unlinkat(&last.parent, last.name, AtFlags::empty())?;
        self.gone(place, bytes);
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn path_rename(
        &mut self,
        mem: &mut Mem<'_>,
        old_fd: u32,
        old: u32,
        old_len: u32,
        new_fd: u32,
        new: u32,
        new_len: u32,
    ) -> Result<(), Errno> {
        let (old, new) = (mem.get(old, old_len)?, mem.get(new, new_len)?);
        let from = self.fds.last(old_fd, old)?.changeable()?;
        let to = self.fds.last(new_fd, new)?.changeable()?;
        // Also where both are on one disk: only one of them has a limit.
        if from.place() != to.place() {
            return Err(Errno::XDEV);
        }
        if from.slash || to.slash {
            let stat = rustix::fs::statat(&from.parent, from.name, AtFlags::SYMLINK_NOFOLLOW)?;
            if kind_of(stat.st_mode) != FileKind::Directory {
                return Err(Errno::NOTDIR);
            }
        }
        let (moved, replaced) = (stat(&from), stat(&to));
        let (from_at, to_at, place) = (from.at(), to.at(), to.place());
        rustix::fs::renameat(&from.parent, from.name, &to.parent, to.name)?;
        // Of two names of one file, by whatever way, both stay.
        let stays = moved.zip(replaced).is_some_and(|(one, other)| same_file(&one, &other));
        if !stays {
            self.fds.moved(&from_at, &to_at, moved.as_ref());
            self.gone(place, replaced.as_ref().map(bytes));
        }
        Ok(())
    }
}
