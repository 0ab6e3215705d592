//! How much a tree holds, while hostile programs may change it.
//!
//! Depth costs memory, not descriptors: only the last few levels are open, the others are found
//! again through `..` and known by their inode. What moved meanwhile is left out.

use crate::dirs;
use rustix::fs::{AtFlags, Dir, FileType, Stat};
use std::ffi::CString;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Levels that are kept open.
const WINDOW: usize = 32;
/// Least that an entry counts as on the disk, bytes: empty files cost inodes.
const ENTRY: u64 = 4096;
/// Most entries that [`contents`] counts.
const ENTRIES: u64 = 1_000_000;

struct Level {
    fd: Option<OwnedFd>,
    id: (u64, u64),
    left: Vec<CString>,
}

type Visit<'a> = &'a mut dyn FnMut(&Stat) -> ControlFlow<()>;

/// Bytes in allocated blocks below a directory, itself included, and at least [`ENTRY`] for each
/// entry. A file with several names counts a part for each. Counting ends where there are more than `most`.
pub(crate) fn allocated(root: BorrowedFd<'_>, most: u64) -> io::Result<u64> {
    let mut bytes = blocks(&rustix::fs::fstat(root)?);
    walk(root, &mut |stat| {
        let share = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => 1,
            _ => u64::from(u32::try_from(stat.st_nlink).unwrap_or(1).max(1)),
        };
        bytes = bytes.saturating_add(blocks(stat).max(ENTRY) / share);
        if bytes > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(bytes)
}

/// How many entries there are below a directory, and the lengths of the plain files among
/// them. Past a million entries counting ends.
pub(crate) fn contents(root: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let (mut entries, mut bytes) = (0_u64, 0_u64);
    walk(root, &mut |stat| {
        entries += 1;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            bytes = bytes.saturating_add(u64::try_from(stat.st_size).unwrap_or(0));
        }
        if entries >= ENTRIES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok((entries, bytes))
}

/// Shows every entry below a directory once; links and other file systems are not entered.
fn walk(root: BorrowedFd<'_>, visit: Visit<'_>) -> io::Result<()> {
    let Some(top) = level(root.try_clone_to_owned()?, visit)? else { return Ok(()) };
    let device = top.id.0;
    let mut stack = vec![top];
    while let Some(here) = stack.last_mut() {
        let Some(fd) = &here.fd else { break };
        if let Some(name) = here.left.pop() {
            // Gone, moved or made a link meanwhile: the next count will see.
            let Ok(child) = dirs::open_at(fd, &name) else { continue };
            if !rustix::fs::fstat(&child).is_ok_and(|stat| stat.st_dev == device) {
                continue;
            }
            let child = match level(child, visit) {
                Ok(Some(child)) => child,
                Ok(None) => return Ok(()),
                Err(_) => continue,
            };
            stack.push(child);
            if let Some(old) = stack.len().checked_sub(WINDOW + 1) {
                stack[old].fd = None;
            }
            continue;
        }
        let parent = dirs::open_at(fd, c"..");
        stack.pop();
        if let Some(above) = stack.last_mut()
            && above.fd.is_none()
        {
            let Ok(fd) = parent else { break };
            let stat = rustix::fs::fstat(&fd)?;
            if (stat.st_dev, stat.st_ino) != above.id {
                break;
            }
            above.fd = Some(fd);
        }
    }
    Ok(())
}

/// Shows what lies in a directory and remembers its directories; `None` where it was enough.
fn level(fd: OwnedFd, visit: Visit<'_>) -> io::Result<Option<Level>> {
    let own = rustix::fs::fstat(&fd)?;
    let mut left = Vec::new();
    for entry in Dir::read_from(fd.as_fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if visit(&stat).is_break() {
            return Ok(None);
        }
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            left.push(name.to_owned());
        }
    }
    Ok(Some(Level { fd: Some(fd), id: (own.st_dev, own.st_ino), left }))
}

fn blocks(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

#[cfg(test)]
mod tests;
