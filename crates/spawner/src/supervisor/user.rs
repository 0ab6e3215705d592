//! Which ids a command gets, read from the image's own files by the command's own process.

use rustix::fs::{FileType, Mode, OFlags};
use std::fs::File;
use std::io::Read;

/// The largest id of an instance's range.
const LARGEST: u32 = 65535;
/// How much of /etc/passwd and /etc/group is read, bytes.
const READ: u64 = 1 << 20;

/// Ids of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
}

impl Ids {
    /// Root of the instance.
    pub(super) const fn root() -> Self {
        Self { uid: 0, gid: 0, groups: Vec::new() }
    }
}

/// Finds `uid[:gid]` or a name in the files of the root that the caller is in.
pub(super) fn find(wanted: Option<&str>) -> Option<Ids> {
    match wanted {
        None => Some(Ids::root()),
        Some(wanted) => resolve(wanted, || read("/etc/passwd"), || read("/etc/group")),
    }
}

fn resolve(wanted: &str, passwd: impl Fn() -> Vec<u8>, group: impl Fn() -> Vec<u8>) -> Option<Ids> {
    let (user, chosen) = match wanted.split_once(':') {
        Some((user, group)) => (user, Some(id(group)?)),
        None => (wanted, None),
    };
    if let Some(uid) = id(user) {
        let gid = match chosen {
            Some(gid) => gid,
            None => entry(&passwd(), |fields| fields[2] == user).map_or(0, |(_, gid)| gid),
        };
        return Some(Ids { uid, gid, groups: Vec::new() });
    }
    if user.is_empty() || user.contains('\n') {
        return None;
    }
    let (uid, gid) = entry(&passwd(), |fields| fields[0] == user)?;
    let groups = if chosen.is_none() { memberships(&group(), user) } else { Vec::new() };
    Some(Ids { uid, gid: chosen.unwrap_or(gid), groups })
}

fn id(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|id| *id <= LARGEST)
}

fn entry(passwd: &[u8], matches: impl Fn(&[&str]) -> bool) -> Option<(u32, u32)> {
    String::from_utf8_lossy(passwd).lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let found = fields.len() >= 4 && matches(&fields);
        found.then(|| Some((id(fields[2])?, id(fields[3])?))).flatten()
    })
}

fn memberships(group: &[u8], user: &str) -> Vec<u32> {
    let text = String::from_utf8_lossy(group);
    let of = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let member = fields.len() >= 4 && fields[3].split(',').any(|name| name == user);
        member.then(|| id(fields[2])).flatten()
    };
    text.lines().filter_map(of).take(256).collect()
}

fn read(path: &str) -> Vec<u8> {
    let mut text = Vec::new();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) else { return text };
    // The image may hold anything under this name; a pipe or device is no list of users.
    let regular = rustix::fs::fstat(&fd)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile);
    if regular {
        // What could be read counts.
        let _ = File::from(fd).take(READ).read_to_end(&mut text);
    }
    text
}

#[cfg(test)]
mod tests;
