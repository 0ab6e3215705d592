//! Open descriptors as a snapshot keeps them, and their way back.
//!
//! A file is opened again by the way that it was opened by, at the same number, and read or
//! written on from where it stood. If another file lies there now, or none, the number stays
//! taken and every use of it fails with an I/O error: it never becomes another file.

use super::errno::Errno;
use super::fds::{Entry, Fds, Kind, Location, host_flags};
use super::paths::{Access, open_checked};
use super::places::{FIRST, PlaceKind, Places};
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd};
use types::Stream;

/// A descriptor that is not as it was at first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFd {
    /// Its number.
    pub fd: u32,
    /// What it is.
    pub kind: SavedKind,
    /// Its rights, as in preview 1.
    #[serde(default)]
    pub rights: u64,
    /// The rights of what is opened from it.
    #[serde(default)]
    pub inheriting: u64,
    /// Its flags, as in preview 1.
    #[serde(default)]
    pub flags: u16,
}

/// What a saved descriptor is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SavedKind {
    /// Closed, though it is open at first.
    Closed,
    /// Standard input at another number.
    Stdin,
    /// Standard output at another number.
    Stdout,
    /// Standard error at another number.
    Stderr,
    /// `/dev/null`.
    Null,
    /// One of the directories that the guest was given, by its position.
    Place(usize),
    /// A directory.
    Dir(SavedFile),
    /// A file.
    File(SavedFile),
}

/// A file or directory, and how to find it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFile {
    /// Position of the place that it was opened from.
    pub place: usize,
    /// The way from there: a string, or `{"base64"}` where it is not UTF-8.
    #[serde(with = "path_text")]
    pub path: Vec<u8>,
    /// Where the next byte is read or written.
    pub offset: u64,
    /// Its number in its file system; 0 in a read-only place, whose files are what they are.
    pub ino: u64,
    /// When it was made, ns since the epoch, where the file system knows.
    pub born: i64,
}

/// Paths are text, if they can be.
mod path_text {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum PathText {
        Text(String),
        Bytes { base64: String },
    }

    pub fn serialize<S: Serializer>(path: &[u8], s: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(path) {
            Ok(text) => PathText::Text(text.to_owned()).serialize(s),
            Err(_) => PathText::Bytes { base64: STANDARD.encode(path) }.serialize(s),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        match PathText::deserialize(d)? {
            PathText::Text(text) => Ok(text.into_bytes()),
            PathText::Bytes { base64 } => STANDARD.decode(base64).map_err(D::Error::custom),
        }
    }
}

/// What tells a file from another that came to lie at its place.
fn identity(fd: BorrowedFd<'_>) -> Result<(u64, i64), Errno> {
    let want = StatxFlags::INO | StatxFlags::BTIME;
    let stat = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, want)?;
    let born = match stat.stx_mask & StatxFlags::BTIME.bits() {
        0 => 0,
        _ => stat
            .stx_btime
            .tv_sec
            .saturating_mul(1_000_000_000)
            .saturating_add(i64::from(stat.stx_btime.tv_nsec)),
    };
    Ok((stat.stx_ino, born))
}

impl Fds {
    /// All that is not as it was at first.
    pub(crate) fn save(&self) -> Vec<SavedFd> {
        let initial = FIRST + self.places.len() as u32;
        let closed = (0..initial).filter(|fd| !self.entries.contains_key(fd)).map(|fd| SavedFd {
            fd,
            kind: SavedKind::Closed,
            rights: 0,
            inheriting: 0,
            flags: 0,
        });
        let open = self.entries.iter().filter(|(fd, _)| !self.is_initial(**fd));
        let mut all: Vec<_> = open.map(|(fd, entry)| self.save_one(*fd, entry)).collect();
        all.extend(closed);
        all.sort_by_key(|saved| saved.fd);
        all
    }

    fn save_one(&self, fd: u32, entry: &Entry) -> SavedFd {
        let file = |at: &Location, host: BorrowedFd<'_>, offset| {
            let stays = !self.writable(at.place).unwrap_or(true);
            // What cannot be told apart is not found again.
            let (ino, born) = if stays { (0, 0) } else { identity(host).unwrap_or((0, i64::MIN)) };
            SavedFile { place: at.place, path: at.path.clone(), offset, ino, born }
        };
        let kind = match &entry.kind {
            Kind::Stdin => SavedKind::Stdin,
            Kind::Out(Stream::Stdout) => SavedKind::Stdout,
            Kind::Out(Stream::Stderr) => SavedKind::Stderr,
            Kind::Null => SavedKind::Null,
            Kind::Place { place, .. } => SavedKind::Place(*place),
            Kind::Dir { at, fd, .. } => SavedKind::Dir(file(at, fd.as_fd(), 0)),
            Kind::File { at, fd, offset } => SavedKind::File(file(at, fd.as_fd(), *offset)),
            Kind::Lost(saved) => return SavedFd { fd, ..(**saved).clone() },
        };
        SavedFd { fd, kind, rights: entry.rights, inheriting: entry.inheriting, flags: entry.flags }
    }

    /// The table of a snapshot.
    pub(crate) fn restore(places: Places, saved: &[SavedFd]) -> Self {
        let mut fds = Fds::new(places);
        for one in saved {
            fds.entries.remove(&one.fd);
            if one.kind == SavedKind::Closed {
                continue;
            }
            let kind = reopen(&fds.places, one).unwrap_or_else(|_| Kind::Lost(one.clone().into()));
            let entry =
                Entry { kind, rights: one.rights, inheriting: one.inheriting, flags: one.flags };
            fds.entries.insert(one.fd, entry);
        }
        fds
    }
}

fn reopen(places: &Places, saved: &SavedFd) -> Result<Kind, Errno> {
    let (file, dir) = match &saved.kind {
        SavedKind::Closed => return Err(Errno::BADF),
        SavedKind::Stdin => return Ok(Kind::Stdin),
        SavedKind::Stdout => return Ok(Kind::Out(Stream::Stdout)),
        SavedKind::Stderr => return Ok(Kind::Out(Stream::Stderr)),
        SavedKind::Null => return Ok(Kind::Null),
        SavedKind::Place(place) => return Ok(Kind::Place { place: *place, names: None }),
        SavedKind::Dir(file) => (file, true),
        SavedKind::File(file) => (file, false),
    };
    let place = places.get(file.place).ok_or(Errno::BADF)?;
    let PlaceKind::Host { dir: from, writable } = &place.kind else { return Err(Errno::BADF) };
    let path = if file.path.is_empty() { b"." } else { file.path.as_slice() };
    let access = Access { write: *writable, ..Access::of(saved.rights) };
    let flags = if dir { OFlags::DIRECTORY } else { host_flags(saved.flags) };
    let opened = open_checked(from.as_fd(), path, access, flags, dir)?;
    if *writable && identity(opened.fd.as_fd())? != (file.ino, file.born) {
        return Err(Errno::STALE);
    }
    if opened.dir != dir {
        return Err(Errno::STALE);
    }
    let at = Location { place: file.place, path: file.path.clone() };
    Ok(match dir {
        true => Kind::Dir { at, fd: opened.fd, names: None },
        false => Kind::File { at, fd: opened.fd, offset: file.offset },
    })
}
