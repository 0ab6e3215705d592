//! How much a tree holds on the disk, while hostile programs may change it.
//!
//! Depth costs memory, not descriptors: only the last few levels are open, the others are found
//! again through `..` and known by their inode. What moved meanwhile is left out.

use crate::dirs;
use rustix::fs::{AtFlags, Dir, FileType};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Levels that are kept open.
const WINDOW: usize = 32;

struct Level {
    fd: Option<OwnedFd>,
    id: (u64, u64),
    left: Vec<CString>,
}

/// Bytes in allocated blocks below a directory, itself included. A file with several names
/// counts a part for each.
pub(crate) fn allocated(root: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = 0;
    let top = level(root.try_clone_to_owned()?, &mut bytes)?;
    let device = top.id.0;
    let mut stack = vec![top];
    while let Some(here) = stack.last_mut() {
        let Some(fd) = &here.fd else { break };
        if let Some(name) = here.left.pop() {
            // Gone, moved or made a link meanwhile: the next count will see.
            let Ok(child) = dirs::open_at(fd, &name) else { continue };
            let Ok(child) = level(child, &mut bytes) else { continue };
            if child.id.0 == device {
                stack.push(child);
                if let Some(old) = stack.len().checked_sub(WINDOW + 1) {
                    stack[old].fd = None;
                }
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
    Ok(bytes)
}

/// Counts what lies in a directory and remembers its directories.
fn level(fd: OwnedFd, bytes: &mut u64) -> io::Result<Level> {
    let stat = rustix::fs::fstat(&fd)?;
    *bytes += blocks(&stat);
    let mut left = Vec::new();
    for entry in Dir::read_from(fd.as_fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            left.push(name.to_owned());
        } else {
            *bytes += blocks(&stat) / u64::from(u32::try_from(stat.st_nlink).unwrap_or(1).max(1));
        }
    }
    Ok(Level { fd: Some(fd), id: (stat.st_dev, stat.st_ino), left })
}

fn blocks(stat: &rustix::fs::Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

#[cfg(test)]
mod tests;
