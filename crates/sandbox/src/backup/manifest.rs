//! The last part of an archive: what is in it, a line each, in its order.
//!
//! ```text
//! <kind> <mode> <uid> <gid> <mtime> <size> <hash> <path>
//! gone <object id>                 what there is of it is left over: it went meanwhile
//! left <path> <why>                it was there, and is not in the archive
//! end <number of lines before>
//! ```
//!
//! The hash is BLAKE3 of the bytes, or of where a link leads.

use super::BackupError;
use super::error::damaged;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;
use tar::EntryType;
use types::ObjectId;

/// Its name in the archive.
pub(super) const NAME: &str = "manifest";
/// How many of the files that are left out are told.
pub(super) const TOLD: usize = 100;
/// Longest line that is read, bytes.
const LINE: u64 = 1 << 20;

/// What is known of an entry beside its contents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub kind: EntryType,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    /// Seconds since the epoch.
    pub mtime: u64,
}

/// A manifest that grows, in a file without a name: there may be a great many lines.
pub(super) struct Manifest {
    file: BufWriter<File>,
    lines: u64,
    size: u64,
}

/// What a manifest says beside what is there.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub gone: Vec<ObjectId>,
    /// The first hundred.
    pub left_out: Vec<String>,
}

impl Manifest {
    pub fn new(dir: &Path) -> Result<Self, BackupError> {
        let file = tempfile::tempfile_in(dir).map_err(BackupError::file("make", NAME))?;
        Ok(Self { file: BufWriter::new(file), lines: 0, size: 0 })
    }

    fn line(&mut self, line: &str) -> Result<(), BackupError> {
        let written = writeln!(self.file, "{line}");
        written.map_err(BackupError::file("write", NAME))?;
        self.lines += 1;
        self.size += line.len() as u64 + 1;
        Ok(())
    }

    /// An entry of these facts, length and contents is in it.
    pub fn entry(
        &mut self,
        facts: &Facts,
        size: u64,
        hash: &blake3::Hash,
        path: &[u8],
    ) -> Result<(), BackupError> {
        let Facts { kind, mode, uid, gid, mtime } = facts;
        let kind = char::from(kind.as_byte());
        let (hash, path) = (hash.to_hex(), shown(path));
        self.line(&format!("{kind} {mode:o} {uid} {gid} {mtime} {size} {hash} {path}"))
    }

    /// What there is of this object is left over.
    pub fn gone(&mut self, object: &ObjectId) -> Result<(), BackupError> {
        self.line(&format!("gone {object}"))
    }

    /// This is not in the archive.
    pub fn left(&mut self, what: &str) -> Result<(), BackupError> {
        self.line(&format!("left {what}"))
    }

    /// The whole text: its size, and a reader of it.
    pub fn finish(mut self) -> Result<(u64, File), BackupError> {
        let end = format!("end {}", self.lines);
        self.line(&end)?;
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error);
        let mut file = file.map_err(BackupError::file("write", NAME))?;
        file.rewind().map_err(BackupError::file("read", NAME))?;
        Ok((self.size, file))
    }

    /// Compares what was found while reading an archive with the manifest in it.
    pub fn compare(self, manifest: impl Read) -> Result<Told, BackupError> {
        let lines = self.lines;
        let (_, file) = self.finish()?;
        let mut found = Lines(BufReader::new(file));
        let mut told = Told::default();
        let mut manifest = Lines(BufReader::new(manifest));
        let (mut count, mut same) = (0, 0);
        while let Some(line) = manifest.next().map_err(|e| super::restore::broken(NAME, e))? {
            if let Some(end) = line.strip_prefix("end ") {
                if end.parse() != Ok(count) || same != lines {
                    return Err(damaged(NAME, "does not name what is in the archive"));
                }
                return Ok(told);
            }
            count += 1;
            if let Some(object) = line.strip_prefix("gone ") {
                told.gone.push(object.parse().map_err(|_| damaged(NAME, "names no object"))?);
                continue;
            }
            if let Some(left) = line.strip_prefix("left ") {
                if told.left_out.len() < TOLD {
                    told.left_out.push(left.to_owned());
                }
                continue;
            }
            same += 1;
            let path = |line: &str| line.splitn(8, ' ').nth(7).map(str::to_owned);
            let named = path(&line).unwrap_or_else(|| NAME.to_owned());
            match found.next().map_err(BackupError::file("read", NAME))? {
                Some(other) if other == line => {}
                Some(other) if path(&other).as_ref() == Some(&named) => {
                    return Err(damaged(named, "is not what was written"));
                }
                _ => return Err(damaged(named, "is missing, or out of place")),
            }
        }
        Err(BackupError::Half(NAME.to_owned()))
    }
}

/// Lines of a bounded length.
struct Lines<R>(R);

impl<R: BufRead> Lines<R> {
    /// The next whole line without its end.
    fn next(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        self.0.by_ref().take(LINE).read_until(b'\n', &mut line)?;
        match line.pop() {
            None => Ok(None),
            Some(b'\n') => String::from_utf8(line).map(Some).map_err(io::Error::other),
            Some(_) if line.len() as u64 + 1 == LINE => Err(io::Error::other("a line is too long")),
            Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// A path on one line, whatever its bytes are.
pub(super) fn shown(path: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(path.len());
    for byte in path {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            // Into a string nothing fails.
            _ => _ = write!(text, "\\x{byte:02x}"),
        }
    }
    text
}
