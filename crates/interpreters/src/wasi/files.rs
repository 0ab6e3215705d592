//! Reading and writing what is open.

use super::Wasi;
use super::epoch_ms;
use super::errno::Errno;
use super::fds::{APPEND, Kind, host_flags};
use super::mem::{IoVec, Mem};
use super::places::WORKSPACE;
use super::rights;
use super::room::{FILE_MAX, length, weight};
use rustix::fs::FallocateFlags;
use std::os::fd::{AsFd, BorrowedFd};

/// Most bytes of one read or write: it cannot be interrupted.
const CALL_MAX: usize = 8 << 20;

/// What a guest reads from its standard input.
#[derive(Debug, Default)]
pub(crate) struct Stdin {
    pub bytes: Vec<u8>,
    pub at: usize,
}

impl Stdin {
    fn read(&mut self, mem: &mut Mem<'_>, vecs: &[IoVec]) -> Result<usize, Errno> {
        let mut done = 0;
        for (ptr, len) in vecs {
            let rest = &self.bytes[self.at..];
            let take = rest.len().min(*len as usize);
            mem.put(*ptr, &rest[..take])?;
            self.at += take;
            done += take;
        }
        Ok(done)
    }
}

/// Reads into buffers one after the other until one is not filled.
fn read_at(
    mem: &mut Mem<'_>,
    fd: BorrowedFd<'_>,
    vecs: &[IoVec],
    from: u64,
) -> Result<usize, Errno> {
    let mut done = 0;
    for (ptr, len) in vecs {
        let len = (*len).min((CALL_MAX - done) as u32);
        if len == 0 {
            continue;
        }
        match rustix::io::pread(fd, &mut *mem.get_mut(*ptr, len)?, from + done as u64) {
            Ok(read) => {
                done += read;
                if read < len as usize {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

/// Writes at most `max` bytes of buffers one after the other.
fn write_at(
    mem: &Mem<'_>,
    fd: BorrowedFd<'_>,
    vecs: &[IoVec],
    at: u64,
    max: usize,
) -> Result<usize, Errno> {
    let mut done = 0;
    for (ptr, len) in vecs {
        let len = (*len).min((max - done) as u32);
        if len == 0 {
            continue;
        }
        match rustix::io::pwrite(fd, mem.get(*ptr, len)?, at + done as u64) {
            Ok(written) => {
                done += written;
                if written < len as usize {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

pub(crate) fn size(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    Ok(length(&rustix::fs::fstat(fd)?))
}

impl Wasi {
    pub(crate) fn fd_read(
        &mut self,
        mem: &mut Mem<'_>,
        fd: u32,
        vecs: u32,
        count: u32,
        out: u32,
    ) -> Result<(), Errno> {
        let vecs = mem.iovecs(vecs, count)?;
        let entry = self.fds.get(fd)?;
        entry.need(rights::READ)?;
        let read = match &mut entry.kind {
            Kind::Stdin => self.stdin.read(mem, &vecs)?,
            Kind::Null => 0,
            Kind::File { fd, offset, .. } => {
                let read = read_at(mem, fd.as_fd(), &vecs, *offset)?;
                *offset += read as u64;
                read
            }
            Kind::Dir { .. } | Kind::Place { .. } => return Err(Errno::ISDIR),
            Kind::Out(_) | Kind::Lost(_) => return Err(Errno::BADF),
        };
        mem.put_u32(out, read as u32)
    }

    pub(crate) fn fd_pread(
        &mut self,
        mem: &mut Mem<'_>,
        fd: u32,
        vecs: u32,
        count: u32,
        from: u64,
        out: u32,
    ) -> Result<(), Errno> {
        let vecs = mem.iovecs(vecs, count)?;
        let entry = self.fds.get(fd)?;
        entry.need(rights::READ)?;
        let read = match &entry.kind {
            Kind::File { fd, .. } if from <= i64::MAX as u64 => {
                read_at(mem, fd.as_fd(), &vecs, from)?
            }
            Kind::File { .. } => return Err(Errno::INVAL),
            Kind::Null => 0,
            Kind::Dir { .. } | Kind::Place { .. } => return Err(Errno::ISDIR),
            _ => return Err(Errno::SPIPE),
        };
        mem.put_u32(out, read as u32)
    }

    pub(crate) fn fd_write(
        &mut self,
        mem: &mut Mem<'_>,
        fd: u32,
        vecs: u32,
        count: u32,
        out: u32,
    ) -> Result<(), Errno> {
        self.write(mem, fd, vecs, count, None, out)
    }

    pub(crate) fn fd_pwrite(
        &mut self,
        mem: &mut Mem<'_>,
        fd: u32,
        vecs: u32,
        count: u32,
        at: u64,
        out: u32,
    ) -> Result<(), Errno> {
        self.write(mem, fd, vecs, count, Some(at), out)
    }

    fn write(
        &mut self,
        mem: &mut Mem<'_>,
        fd: u32,
        vecs: u32,
        count: u32,
        at: Option<u64>,
        out: u32,
    ) -> Result<(), Errno> {
        let vecs = mem.iovecs(vecs, count)?;
        let entry = self.fds.get(fd)?;
        entry.need(rights::WRITE)?;
        let append = entry.flags & APPEND != 0;
        let total: usize = vecs.iter().map(|(_, len)| *len as usize).sum();
        let written = match &mut entry.kind {
            Kind::Out(_) if at.is_some() => return Err(Errno::SPIPE),
            Kind::Out(stream) => {
                let mut output = self.output.lock();
                for (ptr, len) in &vecs {
                    output.write(*stream, mem.get(*ptr, *len)?, epoch_ms());
                }
                total
            }
            Kind::Null => total,
            Kind::File { fd, offset, at: place } => {
                let before = rustix::fs::fstat(&*fd)?;
                let old = length(&before);
                let start = match at {
                    Some(at) if at > i64::MAX as u64 => return Err(Errno::INVAL),
                    Some(at) => at,
                    None if append => old,
                    None => *offset,
                };
                let mut max = total.min(CALL_MAX) as u64;
                if start.saturating_add(max) > FILE_MAX {
                    max = FILE_MAX.saturating_sub(start);
                    if max == 0 && total > 0 {
                        return Err(Errno::FBIG);
                    }
                }
                let quota = place.place == WORKSPACE;
                let end = start.saturating_add(max);
                let free = self.room.free(self.held);
                if quota && end > old && end - old > free {
                    max = (old + free).saturating_sub(start);
                    if max == 0 && total > 0 {
                        return Err(self.room.refuse());
                    }
                }
                let written = write_at(mem, fd.as_fd(), &vecs, start, max as usize)?;
                let end = start + written as u64;
                if at.is_none() {
                    *offset = end;
                }
                if quota && end > old {
                    self.room.grew(&mut self.held, &before, end - old);
                }
                written
            }
            Kind::Dir { .. } | Kind::Place { .. } => return Err(Errno::ISDIR),
            Kind::Stdin | Kind::Lost(_) => return Err(Errno::BADF),
        };
        mem.put_u32(out, written as u32)
    }

    pub(crate) fn fd_seek(
        &mut self,
        mem: &mut Mem<'_>,
        fd: u32,
        delta: i64,
        whence: u32,
        out: u32,
    ) -> Result<(), Errno> {
        let new = match &mut self.fds.get(fd)?.kind {
            Kind::File { fd, offset, .. } => {
                let from = match whence {
                    0 => 0,
                    1 => *offset,
                    2 => size(fd.as_fd())?,
                    _ => return Err(Errno::INVAL),
                };
                let new = from.checked_add_signed(delta).ok_or(Errno::INVAL)?;
                if new > i64::MAX as u64 {
                    return Err(Errno::OVERFLOW);
                }
                *offset = new;
                new
            }
            Kind::Null => 0,
            Kind::Dir { .. } | Kind::Place { .. } => return Err(Errno::ISDIR),
            _ => return Err(Errno::SPIPE),
        };
        mem.put_u64(out, new)
    }

    pub(crate) fn fd_tell(&mut self, mem: &mut Mem<'_>, fd: u32, out: u32) -> Result<(), Errno> {
        let at = match &self.fds.get(fd)?.kind {
            Kind::File { offset, .. } => *offset,
            Kind::Null => 0,
            _ => return Err(Errno::SPIPE),
        };
        mem.put_u64(out, at)
    }

    pub(crate) fn fd_filestat_set_size(
        &mut self,
        _mem: &mut Mem<'_>,
        fd: u32,
        new: u64,
    ) -> Result<(), Errno> {
        let entry = self.fds.get(fd)?;
        entry.need(rights::SET_SIZE)?;
        let Kind::File { fd, at, .. } = &entry.kind else { return Err(Errno::INVAL) };
        if new > FILE_MAX {
            return Err(Errno::FBIG);
        }
        if at.place != WORKSPACE {
            return Ok(rustix::fs::ftruncate(fd, new)?);
        }
        let before = rustix::fs::fstat(fd)?;
        let old = length(&before);
        self.room.check(self.held, new.saturating_sub(old))?;
        rustix::fs::ftruncate(fd, new)?;
        if new > old {
            self.room.grew(&mut self.held, &before, new - old);
        } else if before.st_nlink == 0 {
            self.count_held();
        } else {
            let after = weight(&rustix::fs::fstat(fd)?);
            self.room.give(weight(&before).saturating_sub(after));
        }
        Ok(())
    }

    pub(crate) fn fd_allocate(
        &mut self,
        _mem: &mut Mem<'_>,
        fd: u32,
        offset: u64,
        len: u64,
    ) -> Result<(), Errno> {
        let entry = self.fds.get(fd)?;
        entry.need(rights::ALLOCATE)?;
        let Kind::File { fd, at, .. } = &entry.kind else { return Err(Errno::BADF) };
        let end = offset.checked_add(len).filter(|end| *end <= FILE_MAX).ok_or(Errno::FBIG)?;
        let before = rustix::fs::fstat(fd)?;
        let more = end.saturating_sub(length(&before));
        let quota = at.place == WORKSPACE;
        if quota {
            self.room.check(self.held, more)?;
        }
        rustix::fs::fallocate(fd, FallocateFlags::empty(), offset, len)?;
        if quota {
            self.room.grew(&mut self.held, &before, more);
        }
        Ok(())
    }

    pub(crate) fn fd_sync(&mut self, _mem: &mut Mem<'_>, fd: u32) -> Result<(), Errno> {
        match &self.fds.get(fd)?.kind {
            Kind::File { fd, .. } | Kind::Dir { fd, .. } => Ok(rustix::fs::fsync(fd)?),
            _ => Ok(()),
        }
    }

    pub(crate) fn fd_datasync(&mut self, _mem: &mut Mem<'_>, fd: u32) -> Result<(), Errno> {
        match &self.fds.get(fd)?.kind {
            Kind::File { fd, .. } | Kind::Dir { fd, .. } => Ok(rustix::fs::fdatasync(fd)?),
            _ => Ok(()),
        }
    }

    pub(crate) fn fd_advise(
        &mut self,
        _mem: &mut Mem<'_>,
        fd: u32,
        _offset: u64,
        _len: u64,
        _advice: u32,
    ) -> Result<(), Errno> {
        // Advice is free to be ignored.
        self.fds.get(fd).map(drop)
    }

    pub(crate) fn fd_fdstat_set_flags(
        &mut self,
        _mem: &mut Mem<'_>,
        fd: u32,
        flags: u32,
    ) -> Result<(), Errno> {
        let entry = self.fds.get(fd)?;
        let flags = (flags & 31) as u16;
        if let Kind::File { fd, .. } = &entry.kind {
            // Of all of them the host can change this one only.
            rustix::fs::fcntl_setfl(fd, host_flags(flags & APPEND) | rustix::fs::OFlags::NONBLOCK)?;
        }
        entry.flags = flags;
        Ok(())
    }
}
