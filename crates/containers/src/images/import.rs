//! From an archive or a directory to an image.

use super::sink::{Meta, Sink};
use super::{ImageError, ImageInfo, Progress, source, tree};
use crate::{dirs, fail};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::Path;
use tar::EntryType;

/// Entries between two calls of the progress function.
const STEP: u64 = 256;

/// Fills `dir/rootfs`.
pub(super) fn import(
    dir: BorrowedFd<'_>,
    name: &str,
    from: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<ImageInfo, ImageError> {
    let rootfs = dirs::ensure(dir, "rootfs", 0o755).map_err(ImageError::storing)?;
    let mut sink = Sink::new(rootfs);
    let file = File::open(from).map_err(ImageError::Source)?;
    let meta = file.metadata().map_err(ImageError::Source)?;
    let (sha256, skipped_devices) = if meta.is_dir() {
        tree::copy(file.into(), &mut sink, progress)?
    } else if meta.is_file() {
        archive(file, meta.len(), &mut sink, progress)?
    } else {
        return Err(ImageError::Kind("the source must be a file or a directory".into()));
    };
    let (entries, bytes) = sink.finish()?;
    Ok(ImageInfo {
        name: name.to_owned(),
        sha256,
        bytes,
        entries,
        skipped_devices,
        imported_at_ms: fail::now_ms(),
        env: BTreeMap::new(),
    })
}

fn archive(
    file: File,
    total: u64,
    sink: &mut Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<(String, u64), ImageError> {
    let (reader, meter) = source::open(file)?;
    let mut archive = tar::Archive::new(reader);
    let mut skipped = 0;
    for entry in archive.entries().map_err(ImageError::Source)? {
        let mut entry = entry.map_err(ImageError::Source)?;
        let path = entry.path().map_err(ImageError::Source)?.into_owned();
        let link = entry.link_name().map_err(ImageError::Source)?.map(|l| l.into_owned());
        let meta = meta(entry.header())?;
        let target = || {
            let missing = || ImageError::hostile(&path, "it is a link without a target");
            link.as_deref().filter(|l| !l.as_os_str().is_empty()).ok_or_else(missing)
        };
        match entry.header().entry_type() {
            EntryType::Directory => sink.dir(&path, meta)?,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                sink.file(&path, meta, &mut entry)?;
            }
            EntryType::Symlink => sink.symlink(&path, target()?, meta)?,
            EntryType::Link => sink.hard_link(&path, target()?)?,
            EntryType::Fifo => sink.fifo(&path, meta)?,
            EntryType::Char | EntryType::Block => skipped += 1,
            // Headers that describe the archive as a whole.
            _ => continue,
        }
        if sink.entries.is_multiple_of(STEP) {
            let read = meter.read();
            progress(Progress { read, total: Some(total), entries: sink.entries });
        }
    }
    drop(archive);
    if sink.entries == 0 {
        return Err(ImageError::Kind("the archive has no files: is it a tar archive?".into()));
    }
    progress(Progress { read: total, total: Some(total), entries: sink.entries });
    Ok((meter.finish().map_err(ImageError::Source)?, skipped))
}

fn meta(header: &tar::Header) -> Result<Meta, ImageError> {
    let number = |n: std::io::Result<u64>| {
        n.map(|n| u32::try_from(n).unwrap_or(u32::MAX - 1)).map_err(ImageError::Source)
    };
    Ok(Meta {
        mode: header.mode().map_err(ImageError::Source)?,
        uid: number(header.uid())?,
        gid: number(header.gid())?,
        mtime: i64::try_from(header.mtime().unwrap_or(0)).unwrap_or(0),
    })
}
