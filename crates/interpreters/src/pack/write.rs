//! Writing packs.

use super::{BLOCK, BuildId, Change, HASH, LENGTH, LINE, MAGIC, PLAIN, VERSION};
use crate::pages::{Content, PAGE, PageIndex, page};
use std::cell::RefCell;
use std::io::{self, Write};
use zstd::bulk::Compressor;
use zstd::stream::write::Encoder;

/// What is written of a pack is handed on in parts of this size, bytes.
pub const PART: usize = 256 << 10;
/// What pages leave is compressed at one stroke up to this size, bytes.
const RAW: usize = 1 << 20;
/// Up to this size it is not compressed, bytes: that would take longer than all else that is done
/// to save a small step, and win a few kilobytes.
const SMALL: usize = 56 << 10;
/// Compression level: the time of a snapshot counts more than its last kilobytes. (Twice as fast
/// as level 1 on what small steps leave, and a fifth larger.)
const LEVEL: i32 = -5;

/// A pack that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What was not handed on of the file's bytes: all of a small one.
    pub rest: Vec<u8>,
    /// Length of the file, bytes.
    pub bytes: u64,
    /// BLAKE3 of all but the last 32 of them, which are this.
    pub hash: [u8; HASH],
}

/// Writes a pack of these pages of `memory`, which began as `base`; `None` means that a page is
/// as in the base again. Of one that is larger than [`PART`] all parts but the last are given to `parts`.
///
/// # Errors
/// Where the compressor fails, and those of `parts`.
pub fn write(
    build: &BuildId,
    seq: u64,
    memory: &[u8],
    base: &[u8],
    pages: &[(PageIndex, Option<Content>)],
    parts: &mut dyn FnMut(Vec<u8>) -> io::Result<()>,
) -> io::Result<Written> {
    let mut out = Out { bytes: Vec::new(), before: None, parts };
    out.bytes.reserve(BLOCK);
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&(pages.len() as u32).to_le_bytes())?;
    out.write_all(&build.wasm)?;
    out.write_all(&build.base)?;
    out.write_all(&seq.to_le_bytes())?;
    out.write_all(&(memory.len() as u64).to_le_bytes())?;
    let start = out.total();
    let (list, plain) =
        SPACE.with_borrow_mut(|space| space.frame(memory, base, pages, &mut out))?;
    let frame = (out.total() - start) | if plain { PLAIN } else { 0 };
    out.write_all(&list)?;
    let end = (LENGTH + HASH) as u64;
    let length = (out.total() + end).next_multiple_of(BLOCK as u64);
    out.bytes.resize(out.bytes.len() + (length - end - out.total()) as usize, 0);
    out.bytes.extend_from_slice(&frame.to_le_bytes());
    let hash = out.hash();
    out.bytes.extend_from_slice(&hash);
    Ok(Written { bytes: out.total(), rest: out.bytes, hash })
}

/// Puts what is to be written of a page behind `out`.
fn put(page: &[u8], base: &[u8], out: &mut Vec<u8>) -> Change {
    let start = out.len();
    let pairs = || page.as_chunks::<LINE>().0.iter().zip(base.as_chunks::<LINE>().0);
    // At one stroke, as most are the same.
    let lines = pairs().enumerate().fold(0u64, |lines, (at, (new, old))| {
        let words = new.as_chunks::<8>().0.iter().zip(old.as_chunks::<8>().0);
        let other = words.fold(0, |other, (new, old)| {
            other | u64::from_ne_bytes(*new) ^ u64::from_ne_bytes(*old)
        });
        lines | u64::from(other != 0) << at
    });
    out.extend_from_slice(&lines.to_le_bytes());
    let mut which = out.len();
    out.resize(which + 2 * lines.count_ones() as usize, 0);
    for (_, (new, old)) in pairs().enumerate().filter(|(at, _)| lines & 1 << at != 0) {
        let mut words = 0u16;
        let pairs = new.as_chunks::<4>().0.iter().zip(old.as_chunks::<4>().0);
        for (at, (new, old)) in pairs.enumerate() {
            if new != old {
                words |= 1 << at;
                out.extend_from_slice(new);
            }
        }
        out[which..which + 2].copy_from_slice(&words.to_le_bytes());
        which += 2;
    }
    if out.len() - start >= PAGE {
        out.truncate(start);
        out.extend_from_slice(page);
        return Change::Data;
    }
    Change::Words
}

/// What comes of a pack.
struct Out<'a> {
    bytes: Vec<u8>,
    /// What was handed on: its hash and its length.
    before: Option<(blake3::Hasher, u64)>,
    parts: &'a mut dyn FnMut(Vec<u8>) -> io::Result<()>,
}

impl Out<'_> {
    /// Length so far, bytes.
    fn total(&self) -> u64 {
        self.before.as_ref().map_or(0, |(_, length)| *length) + self.bytes.len() as u64
    }

    fn hash(&mut self) -> [u8; HASH] {
        match &mut self.before {
            Some((hasher, _)) => *hasher.update(&self.bytes).finalize().as_bytes(),
            None => *blake3::hash(&self.bytes).as_bytes(),
        }
    }
}

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(PART.saturating_sub(self.bytes.len()))];
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= PART {
            let part = std::mem::take(&mut self.bytes);
            let (hasher, length) = self.before.get_or_insert_default();
            hasher.update(&part);
            *length += part.len() as u64;
            (self.parts)(part)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

thread_local! {
    /// What every pack needs again: the compressor alone takes 300 KiB, whose pages the kernel
    /// would have to clear each time.
    static SPACE: RefCell<Space> = const {
        RefCell::new(Space { raw: Vec::new(), frame: Vec::new(), compressor: None })
    };
}

struct Space {
    raw: Vec<u8>,
    frame: Vec<u8>,
    compressor: Option<Compressor<'static>>,
}

impl Space {
    /// Writes what pages leave. Gives the list of pages, and whether it is not compressed.
    fn frame(
        &mut self,
        memory: &[u8],
        base: &[u8],
        pages: &[(PageIndex, Option<Content>)],
        out: &mut Out<'_>,
    ) -> io::Result<(Vec<u8>, bool)> {
        let Self { raw, frame, compressor } = self;
        raw.clear();
        let mut list = Vec::with_capacity(pages.len() * 4);
        let mut pages = pages.iter();
        let mut next = |raw: &mut Vec<u8>| {
            for (index, content) in pages.by_ref() {
                let change = match content {
                    Some(Content::Data(_)) => put(page(memory, *index), page(base, *index), raw),
                    Some(Content::Zero) => Change::Zero,
                    None => Change::Base,
                };
                list.extend_from_slice(&(index << 2 | change.code()).to_le_bytes());
                if raw.len() >= RAW {
                    break;
                }
            }
            pages.len() > 0
        };
        if next(raw) {
            let mut large = Encoder::new(out, LEVEL)?;
            large.write_all(raw)?;
            loop {
                raw.clear();
                let more = next(raw);
                large.write_all(raw)?;
                if !more {
                    break;
                }
            }
            large.finish()?;
            raw.shrink_to(RAW);
            return Ok((list, false));
        }
        if raw.len() <= SMALL {
            out.bytes.reserve(raw.len() + list.len() + BLOCK);
            out.write_all(raw)?;
            return Ok((list, true));
        }
        // At one stroke, with what there is from the last time.
        let compressor = match compressor {
            Some(compressor) => compressor,
            None => compressor.insert(Compressor::new(LEVEL)?),
        };
        frame.clear();
        frame.reserve(zstd::zstd_safe::compress_bound(raw.len()));
        compressor.compress_to_buffer(&raw[..], frame)?;
        out.bytes.reserve(frame.len() + list.len() + BLOCK);
        out.write_all(frame)?;
        raw.shrink_to(RAW);
        Ok((list, false))
    }
}
