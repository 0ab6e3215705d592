//! Which pages of a memory differ from its base.

use crate::memory::Image;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use xxhash_rust::xxh3::xxh3_128;

/// Size of a page, bytes.
pub const PAGE: usize = 4096;
/// Pages of 4 KiB in one of 64 KiB.
const PER_64K: usize = 16;
/// Entries of the page map that are read at once.
const BATCH: usize = 8192;

static ZERO: [u8; PAGE] = [0; PAGE];

/// Number of a 4 KiB page in a memory.
pub type PageIndex = u32;

/// What a page that differs from the base holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Zeros.
    Zero,
    /// Bytes of this hash (xxh3, 128 bits).
    Data(u128),
}

impl Content {
    /// Of these bytes.
    pub fn of(page: &[u8]) -> Self {
        if page == ZERO { Content::Zero } else { Content::Data(xxh3_128(page)) }
    }
}

/// Tells which pages of this process were written.
#[derive(Debug)]
pub struct PageMap(Option<File>);

impl PageMap {
    /// Of the calling process; to be opened again after a fork. Without `/proc` it knows nothing,
    /// and every page is compared.
    pub fn open() -> Self {
        PageMap(File::open("/proc/self/pagemap").ok())
    }

    /// One that was opened before, as [`PageMap::open`] does, by this process.
    pub(crate) fn from(file: File) -> Self {
        PageMap(Some(file))
    }

    /// One that knows nothing.
    pub fn unknown() -> Self {
        PageMap(None)
    }

    /// Whether it knows anything.
    pub fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// The pages of a memory that may have been written since it was mapped; all that were are
    /// among them.
    pub fn written(&self, memory: &[u8]) -> Vec<PageIndex> {
        let pages = memory.len() / PAGE;
        self.ask(memory)
            .or_else(|| self.scan(memory, pages))
            .unwrap_or_else(|| (0..pages as PageIndex).collect())
    }

    /// A number that grows whenever a page of this process is written for the first time. `None`: it
    /// is not known.
    pub fn faults(&self) -> Option<u64> {
        self.0.as_ref()?;
        spawner::pagemap::faults().ok()
    }

    /// By one call that looks at nothing else; kernels before 6.7 do not have it.
    fn ask(&self, memory: &[u8]) -> Option<Vec<PageIndex>> {
        let start = memory.as_ptr() as u64;
        let range = start..start + memory.len() as u64;
        let mut written = Vec::new();
        let found = |found: std::ops::Range<u64>| {
            let page = |address: u64| ((address - start) / PAGE as u64) as PageIndex;
            written.extend(page(found.start)..page(found.end));
        };
        spawner::pagemap::written(self.0.as_ref()?.as_fd(), range, found).ok()?;
        Some(written)
    }

    /// The same, from the whole map.
    fn scan(&self, memory: &[u8], pages: usize) -> Option<Vec<PageIndex>> {
        let map = self.0.as_ref()?;
        let first = memory.as_ptr() as u64 / PAGE as u64;
        let mut buffer = vec![0u8; 8 * BATCH.min(pages)];
        let mut written = Vec::new();
        let mut at = 0;
        while at < pages {
            let count = BATCH.min(pages - at);
            let entries = &mut buffer[..8 * count];
            map.read_exact_at(entries, (first + at as u64) * 8).ok()?;
            for (index, entry) in entries.chunks_exact(8).enumerate() {
                // Bit 63: present, 62: swapped out, 61: of a file. A private page of a file that
                // was written is not the file's any more. (The bits lie in the last byte.)
                if entry[7] & 0xc0 != 0 && entry[7] & 0x20 == 0 {
                    written.push((at + index) as PageIndex);
                }
            }
            at += count;
        }
        Some(written)
    }
}

/// The bytes of a page.
pub fn page(memory: &[u8], index: PageIndex) -> &[u8] {
    let start = index as usize * PAGE;
    memory.get(start..start + PAGE).unwrap_or(&ZERO)
}

/// The pages among `written` that differ from the base, which goes on in zeros, in order. `known`
/// are those that did before, with what they held, in order: what has the same hash still does.
pub fn diff(
    memory: &[u8],
    base: &[u8],
    written: &[PageIndex],
    known: &[(PageIndex, Content)],
) -> Vec<(PageIndex, Content)> {
    let mut known = known.iter().peekable();
    let mut found = Vec::with_capacity(known.len());
    for index in written {
        while known.next_if(|(before, _)| before < index).is_some() {}
        let now = page(memory, *index);
        match known.next_if(|(before, _)| before == index) {
            // The base, as cold as it lies there, need not be looked at.
            Some((_, before)) if Content::of(now) == *before => found.push((*index, *before)),
            _ if now != page(base, *index) => found.push((*index, Content::of(now))),
            _ => {}
        }
    }
    found
}

/// Which 4 KiB pages of a base hold a byte that is not zero, a bit for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NonZero(Vec<u16>);

impl NonZero {
    /// Of these bytes.
    pub fn of(memory: &[u8]) -> Self {
        let bits = |chunk: &[u8]| {
            let set = chunk.chunks(PAGE).enumerate().filter(|(_, page)| *page != &ZERO[..]);
            set.fold(0, |bits, (index, _)| bits | 1 << index)
        };
        NonZero(memory.chunks(PAGE * PER_64K).map(bits).collect())
    }

    /// As text, for the file beside a base image: four hexadecimal digits for each 64 KiB.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|bits| format!("{bits:04x}")).collect()
    }

    /// From that text.
    pub fn from_hex(text: &str) -> Option<Self> {
        let words = text.as_bytes().chunks(4);
        let word = |word| u16::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok();
        words.map(word).collect::<Option<_>>().map(NonZero)
    }

    /// Pages of 64 KiB and chunks of 1 MiB that hold a byte that is not zero, where these pages
    /// differ from the base.
    pub fn count(&self, diff: &[(PageIndex, Content)]) -> (u64, u64) {
        let mut bits = self.0.clone();
        for (index, content) in diff {
            let (word, bit) = (*index as usize / PER_64K, *index as usize % PER_64K);
            if word >= bits.len() {
                bits.resize(word + 1, 0);
            }
            match content {
                Content::Zero => bits[word] &= !(1 << bit),
                Content::Data(_) => bits[word] |= 1 << bit,
            }
        }
        let pages = bits.iter().filter(|word| **word != 0).count();
        let chunks = bits.chunks(16).filter(|chunk| chunk.iter().any(|word| *word != 0)).count();
        (pages as u64, chunks as u64)
    }
}

impl Image {
    /// Which of its pages are not zero.
    pub fn non_zero(&self) -> NonZero {
        NonZero::of(self.bytes())
    }
}

#[cfg(test)]
mod tests;
