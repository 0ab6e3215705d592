//! A file or a tree of this machine as a tar archive.

use super::Copied;
use super::entry::{Head, append};
use super::pipe::Out;
use crate::fail::Failure;
use crate::output;
use rustix::fs::{Mode, OFlags};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType};

/// Packs one file under this name.
pub fn file(from: &Path, name: &[u8], out: Out) -> anyhow::Result<Copied> {
    let mut pack = Pack::new(out, 0);
    pack.file(from, name, OFlags::empty())?;
    pack.end()
}

/// Packs what is in a directory, without itself. `depth`: how many directories below
/// `/workspace` it will lie; links may lead that far up.
pub fn tree(from: &Path, depth: usize, out: Out) -> anyhow::Result<Copied> {
    let mut pack = Pack::new(out, depth);
    // Depth first, each directory in the order of its names.
    let mut due: Vec<(PathBuf, Vec<u8>)> = listed(from, b"")?;
    while let Some((path, name)) = due.pop() {
        let meta = std::fs::symlink_metadata(&path).map_err(|e| unreadable(&path, &e))?;
        let kind = meta.file_type();
        if kind.is_dir() {
            pack.directory(&meta, &name)?;
            due.extend(listed(&path, &name)?);
        } else if kind.is_file() {
            pack.file(&path, &name, OFlags::NOFOLLOW)?;
        } else if kind.is_symlink() {
            pack.link(&path, &meta, &name)?;
        } else {
            pack.leave_out(&path, "neither a file nor a directory");
        }
    }
    pack.end()
}

/// What is in a directory, last name first.
fn listed(directory: &Path, name: &[u8]) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(|e| unreadable(directory, &e))? {
        let entry = entry.map_err(|e| unreadable(directory, &e))?;
        let mut whole = name.to_vec();
        if !whole.is_empty() {
            whole.push(b'/');
        }
        whole.extend_from_slice(entry.file_name().as_bytes());
        all.push((entry.path(), whole));
    }
    all.sort_by(|a, b| b.1.cmp(&a.1));
    Ok(all)
}

struct Pack {
    out: Builder<Out>,
    depth: usize,
    copied: Copied,
}

impl Pack {
    fn new(out: Out, depth: usize) -> Self {
        Self { out: Builder::new(out), depth, copied: Copied::default() }
    }

    fn end(self) -> anyhow::Result<Copied> {
        self.out.into_inner()?.flush()?;
        Ok(self.copied)
    }

    fn append(&mut self, meta: &Metadata, head: &Head<'_>, data: impl Read) -> io::Result<()> {
        let mtime = u64::try_from(meta.mtime()).unwrap_or(0);
        let head = Head { mode: meta.mode() & 0o777, mtime, ..*head };
        append(&mut self.out, &head, data)?;
        self.copied.entries += 1;
        Ok(())
    }

    fn directory(&mut self, meta: &Metadata, name: &[u8]) -> anyhow::Result<()> {
        let name = [name, b"/"].concat();
        let head = head(EntryType::Directory, &name);
        Ok(self.append(meta, &head, io::empty())?)
    }

    fn file(&mut self, path: &Path, name: &[u8], flags: OFlags) -> anyhow::Result<()> {
        // What became a FIFO meanwhile does not hold us.
        let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let file = File::from(opened.map_err(|e| unreadable(path, &e.into()))?);
        let meta = file.metadata().map_err(|e| unreadable(path, &e))?;
        if !meta.is_file() {
            self.leave_out(path, "no file any more");
            return Ok(());
        }
        let head = Head { size: meta.len(), ..head(EntryType::Regular, name) };
        let mut exact = Exact { file, left: meta.len(), error: None };
        let appended = self.append(&meta, &head, &mut exact);
        match exact.error {
            Some(error) => Err(unreadable(path, &error)),
            None => {
                appended?;
                self.copied.bytes += meta.len();
                Ok(())
            }
        }
    }

    fn link(&mut self, path: &Path, meta: &Metadata, name: &[u8]) -> anyhow::Result<()> {
        let target = std::fs::read_link(path).map_err(|e| unreadable(path, &e))?;
        let target = target.into_os_string().into_vec();
        let above = self.depth + name.split(|b| *b == b'/').count() - 1;
        if !stays_inside(above, &target) {
            self.leave_out(path, "a link that leads out of /workspace");
            return Ok(());
        }
        let head = Head { link: &target, ..head(EntryType::Symlink, name) };
        Ok(self.append(meta, &head, io::empty())?)
    }

    fn leave_out(&mut self, path: &Path, why: &str) {
        self.copied.left_out += 1;
        let path = output::plain(&path.display().to_string());
        output::say(format_args!("left out {path}: {why}"));
    }
}

fn head(kind: EntryType, name: &[u8]) -> Head<'_> {
    Head { kind, name, link: b"", mode: 0, mtime: 0, size: 0 }
}

fn unreadable(path: &Path, error: &io::Error) -> anyhow::Error {
    Failure::new(format!("cannot read {}: {error}", path.display())).into()
}

/// Whether a link that lies in so many directories below `/workspace` leads to what is in it, by
/// its text alone.
fn stays_inside(above: usize, target: &[u8]) -> bool {
    let (mut depth, target) = match target.strip_prefix(b"/") {
        None => (above, target),
        Some(absolute) => match absolute.strip_prefix(b"workspace") {
            Some(rest) if rest.is_empty() || rest.starts_with(b"/") => (0, rest),
            _ => return false,
        },
    };
    for part in target.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if depth == 0 => return false,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    true
}

/// As many bytes of a file as its head says, whatever becomes of it meanwhile.
struct Exact {
    file: File,
    left: u64,
    error: Option<io::Error>,
}

impl Read for Exact {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let read = match self.file.read(&mut buffer[..most]) {
            Ok(0) => Err(io::Error::other("it became shorter while it was read")),
            read => read,
        };
        match read {
            Ok(n) => {
                self.left -= n as u64;
                Ok(n)
            }
            Err(error) => {
                self.error = Some(error);
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }
    }
}

#[cfg(test)]
mod tests;
