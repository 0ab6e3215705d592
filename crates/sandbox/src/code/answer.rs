//! From rows and events to what callers see.

use super::packs;
use crate::text::{self, Pieces};
use store::{CheckpointRow, ContextRow, SnapshotRow};
use types::{CheckpointInfo, ContextInfo, LogEntry, Logs, Result, SnapshotInfo, Stream, iso8601};

/// Bytes of a page as snapshots count them.
const PAGE: u64 = 64 << 10;
/// Bytes of a chunk as snapshots count them.
const CHUNK: u64 = 1 << 20;
/// Beyond so many, pieces of one stream are joined whenever they were written.
const ENTRIES: usize = 10_000;

pub(super) fn context(row: ContextRow) -> Result<ContextInfo> {
    let stale = row.stale;
    Ok(ContextInfo {
        id: row.id,
        binding: row.binding,
        language: row.language,
        engine: row.version,
        cwd: row.cwd,
        created_at: iso8601(row.created_at),
        last_used: iso8601(row.last_used),
        executions: row.executions,
        snapshot: row.snapshot.map(|snapshot| of_snapshot(&snapshot, stale)).transpose()?,
    })
}

fn of_snapshot(row: &SnapshotRow, stale: bool) -> Result<SnapshotInfo> {
    let manifest = packs::manifest(row)?;
    let head = |hash: &str| hash.chars().take(16).collect::<String>();
    Ok(SnapshotInfo {
        build: head(&row.wasm) + &head(&row.base),
        pages: manifest.pages64k,
        bytes: manifest.pages64k * PAGE,
        stored_bytes: manifest.chunks1m * CHUNK,
        taken_at: iso8601(row.taken_at),
        stale,
        memory_bytes: manifest.memory_bytes,
        disk_bytes: manifest.disk_bytes(),
    })
}

pub(super) fn checkpoint(row: CheckpointRow) -> Result<CheckpointInfo> {
    let disk_bytes = match &row.snapshot {
        Some(snapshot) => packs::manifest(snapshot)?.disk_bytes(),
        None => 0,
    };
    let CheckpointRow { name, created_at, executions, .. } = row;
    Ok(CheckpointInfo { name, created_at: iso8601(created_at), executions, disk_bytes })
}

/// Output cut into entries that are whole characters where they are text.
#[derive(Default)]
pub(super) struct Entries {
    stdout: (Pieces, i64),
    stderr: (Pieces, i64),
}

impl Entries {
    /// The next entry; `None`: too little for a whole character yet.
    pub fn push(&mut self, stream: Stream, bytes: &[u8], at: i64) -> Option<LogEntry> {
        let (pieces, last) = self.of(stream);
        *last = at;
        let (text, encoding) = pieces.push(bytes)?;
        Some(LogEntry { stream, text, at, encoding })
    }

    /// What is left of both streams.
    pub fn finish(&mut self) -> Vec<LogEntry> {
        let rest = |stream| {
            let (pieces, at) = self.of(stream);
            let (text, encoding) = pieces.finish()?;
            Some(LogEntry { stream, text, at: *at, encoding })
        };
        [Stream::Stdout, Stream::Stderr].into_iter().filter_map(rest).collect()
    }

    fn of(&mut self, stream: Stream) -> &mut (Pieces, i64) {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

/// Output as the whole answer has it.
#[derive(Default)]
pub(super) struct Collected {
    entries: Entries,
    kept: Vec<LogEntry>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Collected {
    pub fn push(&mut self, stream: Stream, bytes: &[u8], at: i64) {
        match stream {
            Stream::Stdout => self.stdout.extend_from_slice(bytes),
            Stream::Stderr => self.stderr.extend_from_slice(bytes),
        }
        let entry = self.entries.push(stream, bytes, at);
        self.keep(entry);
    }

    /// What was written at once is one entry; order and bytes stay.
    fn keep(&mut self, entry: Option<LogEntry>) {
        let Some(entry) = entry else { return };
        let many = self.kept.len() >= ENTRIES;
        match self.kept.last_mut() {
            Some(last)
                if last.stream == entry.stream
                    && (last.at == entry.at || many)
                    && last.encoding.is_none()
                    && entry.encoding.is_none() =>
            {
                last.text.push_str(&entry.text);
            }
            _ => self.kept.push(entry),
        }
    }

    pub fn finish(mut self, truncated: bool) -> Logs {
        for entry in self.entries.finish() {
            self.keep(Some(entry));
        }
        let (stdout, stderr) = (lines(&self.stdout), lines(&self.stderr));
        Logs { stdout, stderr, entries: self.kept, truncated }
    }
}

/// Lines without their ends; bytes that are not UTF-8 as `\xNN`.
fn lines(bytes: &[u8]) -> Vec<String> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.split(|byte| *byte == b'\n').map(text::shown).collect()
}

#[cfg(test)]
mod tests;
