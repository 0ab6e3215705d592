//! What files are, in the guest's notation.

use super::Wasi;
use super::errno::Errno;
use super::fds::{Kind, Location, Start};
use super::fixed::{BEGAN, ino};
use super::mem::Mem;
use super::paths::FOLLOW;
use super::places::beneath;
use super::ways::End;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat, Timespec, Timestamps};

/// Kinds of files by their numbers in preview 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FileKind {
    Unknown = 0,
    Block = 1,
    Character = 2,
    Directory = 3,
    Regular = 4,
    Socket = 6,
    Link = 7,
}

impl From<FileType> for FileKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => FileKind::Regular,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Link,
            FileType::Socket => FileKind::Socket,
            FileType::BlockDevice => FileKind::Block,
            FileType::CharacterDevice => FileKind::Character,
            FileType::Fifo | FileType::Unknown => FileKind::Unknown,
        }
    }
}

pub(crate) fn kind_of(mode: RawMode) -> FileKind {
    FileType::from_raw_mode(mode).into()
}

/// A file's state as a call answers it. Devices are told by place, not by the host's numbers.
struct FileStat {
    dev: u64,
    ino: u64,
    kind: FileKind,
    links: u64,
    size: u64,
    times: [u64; 3],
}

impl FileStat {
    fn of(stat: &Stat, place: usize) -> Self {
        let time = |sec: i64, nsec: u64| {
            u64::try_from(sec).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nsec)
        };
        FileStat {
            dev: place as u64 + 1,
            ino: stat.st_ino,
            kind: kind_of(stat.st_mode),
            links: stat.st_nlink,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            times: [
                time(stat.st_atime, stat.st_atime_nsec),
                time(stat.st_mtime, stat.st_mtime_nsec),
                time(stat.st_ctime, stat.st_ctime_nsec),
            ],
        }
    }

    /// The same with nothing that differs between two machines: of files that are an interpreter's
    /// own, and of all while it starts.
    fn fixed(stat: &Stat, at: &Location) -> Self {
        let all = FileStat::of(stat, at.place);
        let size = if all.kind == FileKind::Directory { 0 } else { all.size };
        FileStat { ino: ino(at), links: 1, size, times: [BEGAN; 3], ..all }
    }

    /// Of something that the host has no counterpart of.
    fn made_up(kind: FileKind, ino: u64) -> Self {
        FileStat { dev: 0, ino, kind, links: 1, size: 0, times: [0; 3] }
    }

    fn put(&self, mem: &mut Mem<'_>, at: u32) -> Result<(), Errno> {
        let mut bytes = [0u8; 64];
        bytes[0..8].copy_from_slice(&self.dev.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.ino.to_le_bytes());
        bytes[16] = self.kind as u8;
        bytes[24..32].copy_from_slice(&self.links.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.size.to_le_bytes());
        for (slot, time) in bytes[40..].chunks_exact_mut(8).zip(self.times) {
            slot.copy_from_slice(&time.to_le_bytes());
        }
        mem.put(at, &bytes)
    }
}

fn virtual_stat(dev: bool, path: &[u8]) -> Result<FileStat, Errno> {
    let clean = Location { place: 0, path: Vec::new() }.join(path).path;
    match clean.as_slice() {
        b"" => Ok(FileStat::made_up(FileKind::Directory, if dev { 2 } else { 1 })),
        b"null" if dev => Ok(FileStat::made_up(FileKind::Character, 3)),
        _ => Err(Errno::NOENT),
    }
}

/// Times as a call gives them: which ones, and whether they are now.
fn timestamps(atim: u64, mtim: u64, flags: u32) -> Result<Timestamps, Errno> {
    use rustix::fs::{UTIME_NOW, UTIME_OMIT};
    let one = |at: u64, set: bool, now: bool| match (set, now) {
        (true, true) => Err(Errno::INVAL),
        (_, true) => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }),
        (true, _) => Ok(Timespec {
            tv_sec: (at / 1_000_000_000) as i64,
            tv_nsec: (at % 1_000_000_000) as i64,
        }),
        _ => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
    };
    Ok(Timestamps {
        last_access: one(atim, flags & 1 != 0, flags & 2 != 0)?,
        last_modification: one(mtim, flags & 4 != 0, flags & 8 != 0)?,
    })
}

fn lookup_flags(lookup: u32) -> OFlags {
    match lookup & FOLLOW {
        0 => OFlags::PATH | OFlags::NOFOLLOW,
        _ => OFlags::PATH,
    }
}

impl Wasi {
    fn stat(&self, stat: &Stat, at: &Location) -> Result<FileStat, Errno> {
        Ok(match self.tells_fixed(at.place)? {
            true => FileStat::fixed(stat, at),
            false => FileStat::of(stat, at.place),
        })
    }

    /// Whether nothing of these files may be told that differs between two machines.
    pub(crate) fn tells_fixed(&self, place: usize) -> Result<bool, Errno> {
        Ok(self.fixed.is_some() || !self.fds.writable(place)?)
    }

    pub(crate) fn path_filestat_get(
        &mut self,
        mem: &mut Mem<'_>,
        dirfd: u32,
        lookup: u32,
        path: u32,
        path_len: u32,
        out: u32,
    ) -> Result<(), Errno> {
        let path = mem.get(path, path_len)?;
        let flags = lookup_flags(lookup);
        let stat = match self.fds.start(dirfd)? {
            Start::Virtual { dev, .. } => virtual_stat(dev, path)?,
            Start::Host { dir, at, .. } => match beneath(dir, path, flags, Mode::empty()) {
                Err(Errno::XDEV) => match self.fds.places.far_place(dir, &at, path, flags)? {
                    End::Host { fd, at, .. } => self.stat(&rustix::fs::fstat(fd)?, &at)?,
                    End::Virtual { dev, path } => virtual_stat(dev, &path)?,
                },
                fd => self.stat(&rustix::fs::fstat(fd?)?, &at.join(path))?,
            },
        };
        stat.put(mem, out)
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn path_filestat_set_times(
        &mut self,
        mem: &mut Mem<'_>,
        dirfd: u32,
        lookup: u32,
        path: u32,
        path_len: u32,
        atim: u64,
        mtim: u64,
        flags: u32,
    ) -> Result<(), Errno> {
        let path = mem.get(path, path_len)?;
        let times = timestamps(atim, mtim, flags)?;
        let (dir, at) = self.fds.start(dirfd)?.writable()?;
        let flags = lookup_flags(lookup);
        let fd = match beneath(dir, path, flags, Mode::empty()) {
            Err(Errno::XDEV) => match self.fds.places.far_place(dir, &at, path, flags)? {
                End::Host { fd, writable: true, .. } => fd,
                _ => return Err(Errno::ROFS),
            },
            fd => fd?,
        };
        Ok(rustix::fs::utimensat(&fd, "", &times, AtFlags::EMPTY_PATH)?)
    }

    pub(crate) fn fd_filestat_get(
        &mut self,
        mem: &mut Mem<'_>,
        fd: u32,
        out: u32,
    ) -> Result<(), Errno> {
        let (stat, at) = match &self.fds.get(fd)?.kind {
            Kind::Stdin | Kind::Out(_) => {
                return FileStat::made_up(FileKind::Unknown, 4 + u64::from(fd)).put(mem, out);
            }
            Kind::Null => return FileStat::made_up(FileKind::Character, 3).put(mem, out),
            Kind::Dir { at, fd, .. } | Kind::File { at, fd, .. } => {
                (rustix::fs::fstat(fd)?, at.clone())
            }
            _ => match self.fds.start(fd)? {
                Start::Virtual { dev, .. } => return virtual_stat(dev, b"")?.put(mem, out),
                Start::Host { dir, at, .. } => (rustix::fs::fstat(dir)?, at),
            },
        };
        self.stat(&stat, &at)?.put(mem, out)
    }

    pub(crate) fn fd_filestat_set_times(
        &mut self,
        _mem: &mut Mem<'_>,
        fd: u32,
        atim: u64,
        mtim: u64,
        flags: u32,
    ) -> Result<(), Errno> {
        let times = timestamps(atim, mtim, flags)?;
        let place = match &self.fds.get(fd)?.kind {
            Kind::File { at, .. } => at.place,
            Kind::Null => return Ok(()),
            _ => {
                let (dir, _) = self.fds.start(fd)?.writable()?;
                return Ok(rustix::fs::utimensat(dir, ".", &times, AtFlags::empty())?);
            }
        };
        if !self.fds.writable(place)? {
            return Err(Errno::ROFS);
        }
        match &self.fds.get(fd)?.kind {
            Kind::File { fd, .. } => Ok(rustix::fs::futimens(fd, &times)?),
            _ => Err(Errno::BADF),
        }
    }
}
