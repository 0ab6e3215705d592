//! Packs: pages of a context as they lie in a file.
//!
//! `docs/concepts/snapshots.md` has the format. A pack is taken whole or not at all: its last 32
//! bytes are a hash of everything before them, and nothing is looked at before they are right.

use crate::pages::{Content, PAGE, PageIndex, page};
use std::cell::RefCell;
use std::collections::HashSet;
use zstd::bulk::Compressor;

const MAGIC: &[u8; 8] = b"SANDPACK";
const VERSION: u32 = 3;
/// The version before, which had no padding.
const UNPADDED: u32 = 2;
/// A pack is padded to whole blocks of this size, bytes: so a file that is written over by the
/// next pack keeps its length most times, and its sync writes no inode.
pub(crate) const BLOCK: usize = 4096;
/// Fixed part, bytes.
const HEADER: usize = 8 + 4 + 4 + 32 + 32 + 8 + 8 + 8;
/// Hash at the end, bytes.
const HASH: usize = 32;
/// Compression level: the time of a snapshot counts more than its last kilobytes. (Twice as fast
/// as level 1 on what small steps leave, and a fifth larger.)
const LEVEL: i32 = -5;
/// Words of 8 bytes in a page.
const WORDS: usize = PAGE / 8;
/// A bit for each word of a page, bytes.
const WHICH: usize = WORDS / 8;
/// Pages of a memory of 4 GiB; none has more.
const PAGES_MAX: u64 = (4 << 30) / PAGE as u64;

/// The build that a pack belongs to: hashes of the wasm module and of the base image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildId {
    /// SHA-256 of the module as its package holds it.
    pub wasm: [u8; 32],
    /// BLAKE3 of the base image.
    pub base: [u8; 32],
}

/// Why a pack is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// It is not a pack, or one that was cut.
    #[error("the pack is cut short: it has {0} bytes")]
    Short(usize),
    /// Its bytes are not those that were written.
    #[error("the pack is damaged: its bytes do not have the hash that was recorded")]
    Damaged,
    /// It is of another version of the format.
    #[error("the pack has version {0} of the format; this program reads version {VERSION}")]
    Version(u32),
    /// It belongs to another interpreter.
    #[error("the pack belongs to another build of the interpreter")]
    OtherBuild,
    /// It is whole, but says what cannot be.
    #[error("the pack contradicts itself: {0}")]
    Invalid(&'static str),
}

/// What a pack says of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its bytes follow.
    Data,
    /// It is all zeros.
    Zero,
    /// It is as in the base again, whatever older packs say.
    Base,
    /// Which of its words of 8 bytes are other than the base's follows, a bit for each, and those.
    /// Most pages that an interpreter touches change in a few counters, and are nearly nothing
    /// then.
    Words,
}

impl Change {
    fn code(self) -> u32 {
        match self {
            Change::Data => 0,
            Change::Zero => 1,
            Change::Base => 2,
            Change::Words => 3,
        }
    }

    /// The bytes of a page at the beginning of `data`; `None` where they are cut short.
    fn bytes(self, data: &[u8]) -> Option<&[u8]> {
        let len = match self {
            Change::Data => PAGE,
            Change::Words => {
                let which = data.get(..WHICH)?;
                WHICH + 8 * which.iter().map(|byte| byte.count_ones() as usize).sum::<usize>()
            }
            Change::Zero | Change::Base => 0,
        };
        data.get(..len)
    }
}

/// Puts what is to be written of a page behind `out`.
fn put(page: &[u8], base: &[u8], out: &mut Vec<u8>) -> Change {
    let start = out.len();
    let mut which = [0u8; WHICH];
    out.extend_from_slice(&which);
    // Eight words at a time, as most are the same.
    let lines = page.as_chunks::<64>().0.iter().zip(base.as_chunks::<64>().0);
    for (which, (new, old)) in which.iter_mut().zip(lines) {
        if new == old {
            continue;
        }
        let words = new.as_chunks::<8>().0.iter().zip(old.as_chunks::<8>().0);
        for (at, (new, old)) in words.enumerate() {
            if new != old {
                *which |= 1 << at;
                out.extend_from_slice(new);
            }
        }
    }
    if out.len() - start > PAGE / 2 {
        out.truncate(start);
        out.extend_from_slice(page);
        return Change::Data;
    }
    out[start..start + WHICH].copy_from_slice(&which);
    Change::Words
}

/// Puts words into the page that they were taken from.
fn put_back(page: &mut [u8], bytes: &[u8]) {
    let (which, mut words) = bytes.split_at(WHICH.min(bytes.len()));
    for (at, to) in page.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        if which.get(at / 8).is_some_and(|byte| byte & 1 << (at % 8) != 0)
            && let Some((word, rest)) = words.split_first_chunk()
        {
            *to = *word;
            words = rest;
        }
    }
}

/// A pack that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// BLAKE3 of all but the last 32 of them, which are this.
    pub hash: [u8; HASH],
}

/// Writes a pack of these pages of `memory`, which began as `base`; `None` means that a page is
/// as in the base again.
///
/// # Errors
/// Where the compressor fails.
pub fn write(
    build: &BuildId,
    seq: u64,
    memory: &[u8],
    base: &[u8],
    pages: &[(PageIndex, Option<Content>)],
) -> std::io::Result<Written> {
    SPACE.with_borrow_mut(|space| space.write(build, seq, memory, base, pages))
}

/// Most that is kept of the space for pages, bytes.
const KEEP: usize = 1 << 20;

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
    fn write(
        &mut self,
        build: &BuildId,
        seq: u64,
        memory: &[u8],
        base: &[u8],
        pages: &[(PageIndex, Option<Content>)],
    ) -> std::io::Result<Written> {
        let Self { raw, frame, compressor } = self;
        raw.clear();
        let compressor = match compressor {
            Some(compressor) => compressor,
            None => compressor.insert(Compressor::new(LEVEL)?),
        };
        let mut list = Vec::with_capacity(pages.len() * 4);
        for (index, content) in pages {
            let change = match content {
                Some(Content::Data(_)) => put(page(memory, *index), page(base, *index), raw),
                Some(Content::Zero) => Change::Zero,
                None => Change::Base,
            };
            list.extend_from_slice(&(index << 2 | change.code()).to_le_bytes());
        }
        frame.clear();
        frame.reserve(zstd::zstd_safe::compress_bound(raw.len()));
        compressor.compress_to_buffer(raw, frame)?;

        let length = HEADER + list.len() + frame.len() + HASH;
        let mut bytes = Vec::with_capacity(length.next_multiple_of(BLOCK));
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(pages.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&build.wasm);
        bytes.extend_from_slice(&build.base);
        bytes.extend_from_slice(&seq.to_le_bytes());
        bytes.extend_from_slice(&(memory.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&(frame.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&list);
        bytes.extend_from_slice(frame);
        raw.shrink_to(KEEP);
        frame.shrink_to(KEEP);
        bytes.resize(length.next_multiple_of(BLOCK) - HASH, 0);
        let hash = *blake3::hash(&bytes).as_bytes();
        bytes.extend_from_slice(&hash);
        Ok(Written { bytes, hash })
    }
}

/// A pack that was read and is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pack {
    /// The snapshot that it was written for.
    pub seq: u64,
    /// Size of the memory then, bytes.
    pub memory_bytes: u64,
    /// Its pages, in order.
    pub pages: Vec<(PageIndex, Change)>,
    /// What follows for the pages that have something, one after the other; checked.
    data: Vec<u8>,
}

/// Fields of a pack, taken one after the other; all lengths were checked before.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], PackError> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(PackError::Invalid("its length"))?;
        self.0 = rest;
        Ok(head)
    }

    fn u32(&mut self) -> Result<u32, PackError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn u64(&mut self) -> Result<u64, PackError> {
        Ok(u64::from(self.u32()?) | u64::from(self.u32()?) << 32)
    }
}

/// Checks the bytes of a pack against the hash that was recorded when it was written.
///
/// # Errors
/// [`PackError::Short`] and [`PackError::Damaged`].
pub fn verify(bytes: &[u8], hash: &[u8; HASH]) -> Result<(), PackError> {
    let Some(body) = bytes.len().checked_sub(HASH).filter(|body| *body >= HEADER) else {
        return Err(PackError::Short(bytes.len()));
    };
    let (body, end) = bytes.split_at(body);
    if end != hash || blake3::hash(body).as_bytes() != hash {
        return Err(PackError::Damaged);
    }
    Ok(())
}

impl Pack {
    /// Reads a pack that was written for this build and has this hash.
    ///
    /// # Errors
    /// Whatever is wrong with it: nothing of it is used.
    pub fn read(bytes: &[u8], hash: &[u8; HASH], build: &BuildId) -> Result<Self, PackError> {
        verify(bytes, hash)?;
        let mut fields = Fields(&bytes[..bytes.len() - HASH]);
        if fields.take(MAGIC.len())? != MAGIC {
            return Err(PackError::Invalid("it does not begin as a pack"));
        }
        match fields.u32()? {
            VERSION | UNPADDED => {}
            other => return Err(PackError::Version(other)),
        }
        let count = fields.u32()?;
        if fields.take(32)? != build.wasm || fields.take(32)? != build.base {
            return Err(PackError::OtherBuild);
        }
        let (seq, memory_bytes, frame_len) = (fields.u64()?, fields.u64()?, fields.u64()?);
        if u64::from(count) > PAGES_MAX || memory_bytes > PAGES_MAX * PAGE as u64 {
            return Err(PackError::Invalid("it has more pages than a memory can have"));
        }
        let pages = page_list(fields.take(count as usize * 4)?, memory_bytes)?;
        let frame_len = usize::try_from(frame_len).unwrap_or(usize::MAX);
        let frame = fields.take(frame_len)?;
        if fields.0.len() >= BLOCK || fields.0.iter().any(|byte| *byte != 0) {
            return Err(PackError::Invalid("its length"));
        }
        let most = pages.len() * PAGE;
        let data = zstd::bulk::decompress(frame, most)
            .map_err(|_| PackError::Invalid("its pages cannot be decompressed"))?;
        let mut rest = &data[..];
        for (_, change) in &pages {
            let short = PackError::Invalid("it has fewer bytes than its pages");
            rest = &rest[change.bytes(rest).ok_or(short)?.len()..];
        }
        if !rest.is_empty() {
            return Err(PackError::Invalid("it has more bytes than its pages"));
        }
        Ok(Pack { seq, memory_bytes, pages, data })
    }
}

fn page_list(list: &[u8], memory_bytes: u64) -> Result<Vec<(PageIndex, Change)>, PackError> {
    let mut pages = Vec::with_capacity(list.len() / 4);
    let mut least = 0;
    for word in list.chunks_exact(4) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let index = word >> 2;
        let change = match word & 3 {
            0 => Change::Data,
            1 => Change::Zero,
            2 => Change::Base,
            _ => Change::Words,
        };
        if index < least || (u64::from(index) + 1) * PAGE as u64 > memory_bytes {
            return Err(PackError::Invalid("its pages are not in order, or beyond the memory"));
        }
        least = index + 1;
        pages.push((index, change));
    }
    Ok(pages)
}

/// Puts the pages of packs, oldest first, into a memory that holds nothing but the base. Gives
/// all pages that differ from it then, in order.
///
/// # Errors
/// [`PackError::Invalid`] where a page lies beyond the memory.
pub fn apply(packs: &[Pack], memory: &mut [u8]) -> Result<Vec<(PageIndex, Content)>, PackError> {
    let mut done = HashSet::new();
    let mut differ = Vec::new();
    // The newest word on a page counts.
    for pack in packs.iter().rev() {
        let mut data = &pack.data[..];
        for (index, change) in &pack.pages {
            let cut = PackError::Invalid("it has fewer bytes than its pages");
            let (bytes, rest) = data.split_at(change.bytes(data).ok_or(cut)?.len());
            data = rest;
            if !done.insert(*index) || *change == Change::Base {
                continue;
            }
            let start = *index as usize * PAGE;
            let to = memory
                .get_mut(start..start + PAGE)
                .ok_or(PackError::Invalid("a page lies beyond the memory"))?;
            match change {
                // Nobody has written this page since it was the base's.
                Change::Words => put_back(to, bytes),
                Change::Data => to.copy_from_slice(bytes),
                Change::Zero | Change::Base => to.fill(0),
            }
            differ.push((*index, Content::of(to)));
        }
    }
    differ.sort_unstable_by_key(|(index, _)| *index);
    Ok(differ)
}

#[cfg(test)]
mod tests;
