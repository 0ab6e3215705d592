//! The last part of an archive: what is in it, with a hash of each file, a line each.
//!
//! ```text
//! <blake3> <bytes> <path>
//! gone <object id>
//! end <number of lines before>
//! ```

use super::BackupError;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;
use types::ObjectId;

/// Its name in the archive.
pub(super) const NAME: &str = "manifest";

/// A manifest that grows, in a file without a name: there may be a great many lines.
pub(super) struct Manifest {
    file: BufWriter<File>,
    lines: u64,
    size: u64,
}

impl Manifest {
    pub fn new(dir: &Path) -> io::Result<Self> {
        let file = BufWriter::new(tempfile::tempfile_in(dir)?);
        Ok(Self { file, lines: 0, size: 0 })
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.file.write_all(line)?;
        self.file.write_all(b"\n")?;
        self.lines += 1;
        self.size += line.len() as u64 + 1;
        Ok(())
    }

    /// A file with these contents is in it.
    pub fn file(&mut self, path: &[u8], hash: &blake3::Hash, size: u64) -> io::Result<()> {
        self.line(format!("{} {size} {}", hash.to_hex(), shown(path)).as_bytes())
    }

    /// What there is of this object is left over: it was destroyed meanwhile.
    pub fn gone(&mut self, object: &ObjectId) -> io::Result<()> {
        self.line(format!("gone {object}").as_bytes())
    }

    /// The whole text: its size, and a reader of it.
    pub fn finish(mut self) -> io::Result<(u64, File)> {
        let end = format!("end {}", self.lines);
        self.line(end.as_bytes())?;
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok((self.size, file))
    }

    /// Compares what was found while reading an archive with the manifest in it. The objects that
    /// were gone come back.
    pub fn compare(self, told: impl Read) -> Result<Vec<ObjectId>, BackupError> {
        let lines = self.lines;
        let (_, file) = self.finish().map_err(BackupError::file("read", NAME))?;
        let mut found = BufReader::new(file).lines();
        let mut gone = Vec::new();
        let mut count = 0;
        for line in BufReader::new(told).lines() {
            let line = line.map_err(|e| damaged(NAME, &e.to_string()))?;
            if let Some(object) = line.strip_prefix("gone ") {
                gone.push(object.parse().map_err(|_| damaged(NAME, "names no object"))?);
                count += 1;
                continue;
            }
            if let Some(end) = line.strip_prefix("end ") {
                if end.parse() != Ok(count) || count - gone.len() as u64 != lines {
                    return Err(damaged(NAME, "does not name what is in the archive"));
                }
                return Ok(gone);
            }
            count += 1;
            let path = line.splitn(3, ' ').nth(2).unwrap_or(NAME);
            match found.next() {
                Some(Ok(same)) if same == line => {}
                Some(Ok(other)) if other.splitn(3, ' ').nth(2) == Some(path) => {
                    return Err(damaged(path, "is not what was written"));
                }
                _ => return Err(damaged(path, "is missing, or out of place")),
            }
        }
        Err(BackupError::Half(NAME.to_owned()))
    }
}

pub(super) fn damaged(path: &str, what: &str) -> BackupError {
    BackupError::Damaged { path: path.to_owned(), what: what.to_owned() }
}

/// A path on one line, whatever its bytes are.
pub(super) fn shown(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}
