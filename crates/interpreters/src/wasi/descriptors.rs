//! Descriptors themselves: what they are, what they are called, reading directories.

use super::Wasi;
use super::errno::Errno;
use super::fds::{Kind, Location, Name, Start};
use super::fixed;
use super::mem::Mem;
use super::places::FIRST;
use super::stat::FileKind;
use rustix::fs::{Dir, Mode, OFlags};
use std::os::fd::BorrowedFd;

/// Most names of a directory that a guest sees, and most that are kept of all that it reads.
pub(crate) const NAMES_MAX: usize = 200_000;

/// `at`: where the directory lies, where inode numbers go by that.
fn names_of(dir: BorrowedFd<'_>, at: Option<&Location>) -> Result<Vec<Name>, Errno> {
    // Read through a descriptor of its own: one that only names the directory cannot be read.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, ".", flags, Mode::empty())?;
    let own = rustix::fs::fstat(&fd)?.st_ino;
    let mut names = Vec::new();
    for entry in Dir::new(fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes().to_vec();
        // The directory above is none of the guest's business.
        let ino = match (at, name.as_slice()) {
            (Some(at), b"..") => fixed::ino(at),
            (Some(at), name) => fixed::ino(&at.join(name)),
            (None, b"..") => own,
            (None, _) => entry.ino(),
        };
        names.push(Name { name, ino, kind: FileKind::from(entry.file_type()) as u8 });
        if names.len() == NAMES_MAX {
            break;
        }
    }
    // A place in this order means the same after a restore.
    names.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(names)
}

fn made_up(names: Vec<Vec<u8>>, ino: u64, kind: FileKind) -> Vec<Name> {
    let dots = [b".".to_vec(), b"..".to_vec()];
    let dots = dots.into_iter().map(|name| Name { name, ino, kind: FileKind::Directory as u8 });
    dots.chain(names.into_iter().map(|name| Name { name, ino: 3, kind: kind as u8 })).collect()
}

impl Wasi {
    pub(crate) fn fd_readdir(
        &mut self,
        mem: &mut Mem<'_>,
        fd: u32,
        buf: u32,
        buf_len: u32,
        cookie: u64,
        used: u32,
    ) -> Result<(), Errno> {
        let known = match &self.fds.get(fd)?.kind {
            Kind::Dir { names, .. } | Kind::Place { names, .. } => names.is_some(),
            _ => return Err(Errno::NOTDIR),
        };
        if cookie == 0 || !known {
            let fresh = match self.fds.start(fd)? {
                Start::Host { dir, at, .. } => {
                    names_of(dir, self.tells_fixed(at.place)?.then_some(&at))?
                }
                Start::Virtual { dev: true, .. } => {
                    made_up(vec![b"null".to_vec()], 2, FileKind::Character)
                }
                Start::Virtual { dev: false, .. } => {
                    made_up(self.fds.places.names(), 1, FileKind::Directory)
                }
            };
            if self.fds.names() + fresh.len() > NAMES_MAX {
                // They are read again where they are needed again.
                self.fds.forget_names();
            }
            match &mut self.fds.get(fd)?.kind {
                Kind::Dir { names, .. } | Kind::Place { names, .. } => *names = Some(fresh),
                _ => return Err(Errno::NOTDIR),
            }
        }
        let (Kind::Dir { names: Some(names), .. } | Kind::Place { names: Some(names), .. }) =
            &self.fds.get(fd)?.kind
        else {
            return Err(Errno::NOTDIR);
        };
        let out = mem.get_mut(buf, buf_len)?;
        let mut at = 0;
        let from = usize::try_from(cookie).unwrap_or(usize::MAX).min(names.len());
        for (index, name) in names.iter().enumerate().skip(from) {
            let mut entry = Vec::with_capacity(24 + name.name.len());
            entry.extend_from_slice(&(index as u64 + 1).to_le_bytes());
            entry.extend_from_slice(&name.ino.to_le_bytes());
            entry.extend_from_slice(&(name.name.len() as u32).to_le_bytes());
            entry.extend_from_slice(&[name.kind, 0, 0, 0]);
            entry.extend_from_slice(&name.name);
            // An entry that is cut tells the guest that there are more.
            let take = entry.len().min(out.len() - at);
            out[at..at + take].copy_from_slice(&entry[..take]);
            at += take;
            if at == out.len() {
                break;
            }
        }
        mem.put_u32(used, at as u32)
    }

    pub(crate) fn fd_prestat_get(
        &mut self,
        mem: &mut Mem<'_>,
        fd: u32,
        out: u32,
    ) -> Result<(), Errno> {
        let len = self.prestat(fd)?.len() as u32;
        mem.put_u32(out, 0)?;
        mem.put_u32(out.wrapping_add(4), len)
    }

    pub(crate) fn fd_prestat_dir_name(
        &mut self,
        mem: &mut Mem<'_>,
        fd: u32,
        buf: u32,
        buf_len: u32,
    ) -> Result<(), Errno> {
        let name = self.prestat(fd)?;
        if name.len() > buf_len as usize {
            return Err(Errno::NAMETOOLONG);
        }
        mem.put(buf, &name)
    }

    /// The path in the guest of a place at its own number.
    fn prestat(&mut self, fd: u32) -> Result<Vec<u8>, Errno> {
        let place = match &self.fds.get(fd)?.kind {
            Kind::Place { place, .. } if *place as u32 + FIRST == fd => *place,
            _ => return Err(Errno::BADF),
        };
        Ok(self.fds.places.get(place).ok_or(Errno::BADF)?.name.clone())
    }

    pub(crate) fn fd_fdstat_get(
        &mut self,
        mem: &mut Mem<'_>,
        fd: u32,
        out: u32,
    ) -> Result<(), Errno> {
        let entry = self.fds.get(fd)?;
        let kind = match entry.kind {
            // Not a terminal: that would be a character device.
            Kind::Stdin | Kind::Out(_) | Kind::Lost(_) => FileKind::Unknown,
            Kind::Null => FileKind::Character,
            Kind::Place { .. } | Kind::Dir { .. } => FileKind::Directory,
            Kind::File { .. } => FileKind::Regular,
        };
        let mut bytes = [0u8; 24];
        bytes[0] = kind as u8;
        bytes[2..4].copy_from_slice(&entry.flags.to_le_bytes());
        bytes[8..16].copy_from_slice(&entry.rights.to_le_bytes());
        bytes[16..24].copy_from_slice(&entry.inheriting.to_le_bytes());
        mem.put(out, &bytes)
    }

    pub(crate) fn fd_fdstat_set_rights(
        &mut self,
        _mem: &mut Mem<'_>,
        fd: u32,
        rights: u64,
        inheriting: u64,
    ) -> Result<(), Errno> {
        let entry = self.fds.get(fd)?;
        if rights & !entry.rights != 0 || inheriting & !entry.inheriting != 0 {
            return Err(Errno::PERM);
        }
        (entry.rights, entry.inheriting) = (rights, inheriting);
        Ok(())
    }

    pub(crate) fn fd_close(&mut self, _mem: &mut Mem<'_>, fd: u32) -> Result<(), Errno> {
        self.fds.close(fd)?;
        if self.held > 0 {
            self.count_held();
        }
        Ok(())
    }

    pub(crate) fn fd_renumber(
        &mut self,
        _mem: &mut Mem<'_>,
        from: u32,
        to: u32,
    ) -> Result<(), Errno> {
        self.fds.renumber(from, to)?;
        if self.held > 0 {
            self.count_held();
        }
        Ok(())
    }
}
