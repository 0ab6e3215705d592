//! Unpacking a tar archive that may be hostile.
//!
//! The server is as much to be doubted as the code that wrote the files. Each name is held against
//! the rules by its text, and then opened beneath the destination by the kernel, without following
//! a link: neither one that an earlier entry made nor one that was there. Set-user-id bits and
//! owners are not taken over.

use super::Copied;
use super::entry::Before;
use super::pipe::In;
use crate::fail::Failure;
use crate::output;
use indicatif::ProgressBar;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use tar::{Entry, EntryType};

/// Bytes that are written at once.
const PIECE: usize = 256 << 10;
/// Two empty blocks end an archive.
const TRAILER: u64 = 1024;

/// Where entries go.
pub enum Target {
    /// All of them into this directory.
    Directory(OwnedFd),
    /// The one file that comes into this directory, under this name.
    File(OwnedFd, Vec<u8>),
}

/// Opens a directory that entries go into.
pub fn open(directory: &Path) -> anyhow::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, directory, flags, Mode::empty()).map_err(|e| {
        let text = format!("cannot open the directory {}: {}", directory.display(), Words(e));
        Failure::new(text).into()
    })
}

/// Unpacks. Errors: the first entry that is refused, an archive that is cut short, a full disk;
/// what was unpacked before stays, and no half of a file does.
pub fn unpack(from: In, target: &Target, bar: &ProgressBar) -> anyhow::Result<Copied> {
    let mut archive = tar::Archive::new(from);
    let mut copied = Copied::default();
    let mut before = Before::default();
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry.map_err(broke)?;
        if before.read(&mut entry).map_err(broke)? {
            continue;
        }
        let told = std::mem::take(&mut before);
        let name = told.name.unwrap_or_else(|| entry.path_bytes().into_owned());
        let link = told.link.or_else(|| entry.link_name_bytes().map(Into::into));
        let refused = |e: anyhow::Error| e.context(format!("cannot unpack {}", shown(&name)));
        match target {
            Target::Directory(root) => {
                Place { root, copied: &mut copied, bar }
                    .entry(&name, link.as_deref(), &mut entry)
                    .map_err(refused)?;
            }
            Target::File(dir, own) => {
                let one = copied.entries == 0 && entry.header().entry_type().is_file();
                anyhow::ensure!(one, "the server sent more than the one file");
                copied.bytes += file(dir, own, &mut entry, bar).map_err(refused)?;
                copied.entries += 1;
            }
        }
    }
    let mut from = archive.into_inner();
    // What comes after the archive's end is nothing; that the connection ended well is something.
    io::copy(&mut from.by_ref().take(1 << 20), &mut io::sink()).map_err(broke)?;
    anyhow::ensure!(from.zeros >= TRAILER, "the archive ends before its end");
    if let Target::File(..) = target {
        anyhow::ensure!(copied.entries == 1, "the server sent no file");
    }
    Ok(copied)
}

fn broke(error: io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context("the archive that the server sent cannot be read")
}

struct Place<'a> {
    root: &'a OwnedFd,
    copied: &'a mut Copied,
    bar: &'a ProgressBar,
}

impl Place<'_> {
    fn entry<R: Read>(
        &mut self,
        name: &[u8],
        link: Option<&[u8]>,
        entry: &mut Entry<'_, R>,
    ) -> anyhow::Result<()> {
        let parts = parts(name)?;
        let Some((last, above)) = parts.split_last() else { return Ok(()) };
        let mode = entry.header().mode().unwrap_or(0o644) & 0o777;
        match entry.header().entry_type() {
            EntryType::Directory => drop(self.directory(&parts, mode)?),
            kind if kind.is_file() && name.ends_with(b"/") => drop(self.directory(&parts, mode)?),
            EntryType::Regular | EntryType::Continuous => {
                let dir = self.directory(above, 0o777)?;
                self.copied.bytes += file(&dir, last, entry, self.bar)?;
            }
            EntryType::Symlink => {
                let target = link.ok_or_else(|| anyhow::anyhow!("a link without a target"))?;
                if !stays_inside(above.len(), target) {
                    self.copied.left_out += 1;
                    let (name, target) = (shown(name), shown(target));
                    output::say(format_args!(
                        "left out {name}: a link to {target}, which can lead out of the copied tree"
                    ));
                    return Ok(());
                }
                let dir = self.directory(above, 0o777)?;
                let beside = beside();
                rustix::fs::symlinkat(target, &dir, &*beside).map_err(Words)?;
                publish(&dir, &beside, last)?;
            }
            EntryType::Link => anyhow::bail!("a hard link, which a sandbox's archives do not have"),
            EntryType::Char | EntryType::Block | EntryType::Fifo => anyhow::bail!("a device"),
            _ => anyhow::bail!("an entry of a kind that is not known"),
        }
        self.copied.entries += 1;
        Ok(())
    }

    /// The directory at these parts, made where it is not there.
    fn directory(&self, parts: &[&[u8]], mode: u32) -> anyhow::Result<OwnedFd> {
        let mut dir = step(self.root, b".")?;
        for (i, part) in parts.iter().enumerate() {
            dir = match step(&dir, part) {
                Err(Words(Errno::NOENT)) => {
                    let mode = if i + 1 == parts.len() { mode } else { 0o777 };
                    // What is to be written into later must be open to its owner.
                    let mode = Mode::from_raw_mode(mode | 0o700);
                    match rustix::fs::mkdirat(&dir, *part, mode) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(e) => return Err(Words(e).into()),
                    }
                    step(&dir, part)?
                }
                Err(Words(Errno::LOOP)) => {
                    anyhow::bail!("{} is a link here, and is not followed", shown(part))
                }
                Err(Words(Errno::NOTDIR)) => anyhow::bail!("{} is a file here", shown(part)),
                step => step?,
            };
        }
        Ok(dir)
    }
}

/// One step down, through no link.
fn step(dir: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Words> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(dir, name, flags, Mode::empty(), beneath).map_err(Words)
}

/// Writes a file beside its place and puts it there whole.
fn file<R: Read>(
    dir: &OwnedFd,
    name: &[u8],
    entry: &mut Entry<'_, R>,
    bar: &ProgressBar,
) -> anyhow::Result<u64> {
    let mode = entry.header().mode().unwrap_or(0o644) & 0o777;
    let size = entry.size();
    let beside = beside();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The user's own mask still counts.
    let made = rustix::fs::openat(dir, &*beside, flags, Mode::from_raw_mode(mode));
    let mut to = File::from(made.map_err(Words)?);
    let written = write(entry, size, &mut to, bar).and_then(|()| {
        if let Ok(mtime) = entry.header().mtime() {
            let time = Timespec { tv_sec: i64::try_from(mtime).unwrap_or(0), tv_nsec: 0 };
            let times = Timestamps { last_access: time, last_modification: time };
            // Not every file system keeps every time.
            let _ = rustix::fs::futimens(to.as_fd(), &times);
        }
        publish(dir, &beside, name)
    });
    if written.is_err() {
        let _ = rustix::fs::unlinkat(dir, &*beside, AtFlags::empty());
    }
    written.map(|()| size)
}

fn write<R: Read>(
    entry: &mut Entry<'_, R>,
    size: u64,
    to: &mut File,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let mut buffer = vec![0; PIECE.min(usize::try_from(size).unwrap_or(PIECE).max(1))];
    let mut left = size;
    while left > 0 {
        let n = entry.read(&mut buffer).map_err(broke)?;
        anyhow::ensure!(n > 0, "the archive ends before its end");
        to.write_all(&buffer[..n])?;
        left = left.saturating_sub(n as u64);
        bar.inc(n as u64);
    }
    Ok(())
}

/// Gives what was made beside its place its name. What is there is replaced, but no directory.
fn publish(dir: &OwnedFd, beside: &str, name: &[u8]) -> anyhow::Result<()> {
    let renamed = rustix::fs::renameat(dir, beside, dir, name);
    if renamed.is_err() {
        let _ = rustix::fs::unlinkat(dir, beside, AtFlags::empty());
    }
    match renamed {
        Err(Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY) => {
            anyhow::bail!("a directory is there")
        }
        renamed => Ok(renamed.map_err(Words)?),
    }
}

/// A name that nobody else uses.
fn beside() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(0, |t| t.subsec_nanos());
    format!(".sandkeep-{}-{nanos:x}-{n}", std::process::id())
}

/// The parts of an entry's name. Errors: it is absolute, or climbs.
fn parts(name: &[u8]) -> anyhow::Result<Vec<&[u8]>> {
    anyhow::ensure!(!name.starts_with(b"/"), "its name is absolute");
    anyhow::ensure!(!name.contains(&0), "its name has a NUL byte");
    let parts = name.split(|b| *b == b'/').filter(|part| !matches!(*part, b"" | b"."));
    let parts: Vec<&[u8]> = parts.collect();
    anyhow::ensure!(!parts.contains(&&b".."[..]), "its name has \"..\" in it");
    Ok(parts)
}

/// Whether a link in so many directories leads to what is below the destination, by its text. An
/// absolute one means another place here than in a sandbox. The directories that it lies in are no
/// links, so `..` at its begin climbs in them; after a name, which may be a link, `..` may climb
/// anywhere.
fn stays_inside(above: usize, target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") || target.contains(&0) {
        return false;
    }
    let mut parts = target.split(|b| *b == b'/').filter(|part| !matches!(*part, b"" | b"."));
    let climbs = parts.by_ref().take_while(|part| *part == b"..").count();
    climbs <= above && parts.all(|part| part != b"..")
}

fn shown(name: &[u8]) -> String {
    output::plain(&OsStr::from_bytes(name).display().to_string())
}

/// An error of the system in its words alone.
#[derive(Debug)]
struct Words(Errno);

impl std::fmt::Display for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        io::Error::from(self.0).fmt(f)
    }
}
impl std::error::Error for Words {}

/// Whether what is at a path here is a directory; `None`: nothing is.
pub fn is_directory(path: &Path) -> anyhow::Result<Option<bool>> {
    match rustix::fs::stat(path) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => {
            Err(Failure::new(format!("cannot look at {}: {}", path.display(), Words(e))).into())
        }
    }
}

#[cfg(test)]
mod tests;
