//! Reading packs.

use super::{
    BLOCK, BuildId, Change, DOUBLE, HASH, HEADER, LENGTH, LINE, LISTED, MAGIC, OLDEST, PAGES_MAX,
    PLAIN, PackError, VERSION, WHICH,
};
use crate::pages::{Content, PAGE, PageIndex};
use std::collections::HashSet;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use zstd::stream::read::Decoder;

/// A bit for each line of a page, bytes.
const LINES: usize = PAGE / LINE / 8;
/// How much of a file is read at once, bytes.
const CHUNK: usize = 64 << 10;

/// A pack that was looked at and is right. Its pages are still in the file that it was read from.
#[derive(Debug)]
pub struct Pack<R> {
    /// The snapshot that it was written for.
    pub seq: u64,
    /// Size of the memory then, bytes.
    pub memory_bytes: u64,
    /// Its pages, in order.
    pub pages: Vec<(PageIndex, Change)>,
    from: R,
    hash: [u8; HASH],
    /// Length of the file, bytes.
    length: u64,
    /// Where its pages' bytes are: offset and length, bytes.
    frame: (u64, u64),
    /// They are not compressed.
    plain: bool,
}

fn unread(error: io::Error) -> PackError {
    match error.kind() {
        // It was longer a moment ago.
        io::ErrorKind::UnexpectedEof => PackError::Damaged,
        _ => PackError::Read(error.to_string()),
    }
}

/// What the decompressor says; what it reads from may have said it.
fn broken(error: io::Error) -> PackError {
    match error.raw_os_error() {
        Some(_) => unread(error),
        None => PackError::Invalid("its pages cannot be decompressed"),
    }
}

/// Checks a pack against the hash that was recorded when it was written, and gives its length, bytes.
///
/// # Errors
/// [`PackError::Short`], [`PackError::Damaged`] and [`PackError::Read`].
pub fn verify<R: Read + Seek>(from: &mut R, hash: &[u8; HASH]) -> Result<u64, PackError> {
    let length = from.seek(SeekFrom::End(0)).map_err(unread)?;
    let body = length.checked_sub(HASH as u64).filter(|body| *body >= HEADER as u64);
    let body = body.ok_or(PackError::Short(length))?;
    from.rewind().map_err(unread)?;
    let mut all = Hashing { from: &mut *from, hasher: blake3::Hasher::new(), left: body };
    all.skip()?;
    let hasher = all.hasher;
    let mut end = [0; HASH];
    from.read_exact(&mut end).map_err(unread)?;
    match &end == hash && hasher.finalize() == *hash {
        true => Ok(length),
        false => Err(PackError::Damaged),
    }
}

/// So many bytes from there.
fn read_at<R: Read + Seek>(from: &mut R, at: u64, bytes: &mut [u8]) -> Result<(), PackError> {
    from.seek(SeekFrom::Start(at)).map_err(unread)?;
    from.read_exact(bytes).map_err(unread)
}

/// The number of 8 bytes that is there.
fn number_at<R: Read + Seek>(from: &mut R, at: u64) -> Result<u64, PackError> {
    let mut bytes = [0; 8];
    read_at(from, at, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Fields of the fixed part, taken one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N], PackError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(PackError::Invalid("its length"))?;
        self.0 = rest;
        Ok(head)
    }

    fn u32(&mut self) -> Result<u32, PackError> {
        Ok(u32::from_le_bytes(*self.take()?))
    }

    fn u64(&mut self) -> Result<u64, PackError> {
        Ok(u64::from_le_bytes(*self.take()?))
    }
}

impl<R: Read + Seek> Pack<R> {
    /// Looks at a pack that was written for this build and has this hash.
    ///
    /// # Errors
    /// Whatever is wrong with it: nothing of it is used.
    pub fn open(mut from: R, hash: &[u8; HASH], build: &BuildId) -> Result<Self, PackError> {
        let length = verify(&mut from, hash)?;
        let mut header = [0; HEADER];
        read_at(&mut from, 0, &mut header)?;
        let mut fields = Fields(&header);
        if fields.take()? != MAGIC {
            return Err(PackError::Invalid("it does not begin as a pack"));
        }
        let version = fields.u32()?;
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(PackError::Version(version));
        }
        let listed = version <= LISTED;
        let count = fields.u32()?;
        if fields.take()? != &build.wasm || fields.take()? != &build.base {
            return Err(PackError::OtherBuild);
        }
        let (seq, memory_bytes) = (fields.u64()?, fields.u64()?);
        if u64::from(count) > PAGES_MAX || memory_bytes > PAGES_MAX * PAGE as u64 {
            return Err(PackError::Invalid("it has more pages than a memory can have"));
        }

        // What stands where, and what is left between it and the end.
        let wrong = || PackError::Invalid("its length");
        let start = HEADER as u64;
        let (list, frame, end) = match listed {
            true => {
                let list = start + LENGTH as u64;
                (list, list + u64::from(count) * 4, length - HASH as u64)
            }
            false => (0, start, (length - HASH as u64).saturating_sub(LENGTH as u64)),
        };
        let frame = match listed {
            true => (frame, number_at(&mut from, start)?),
            false => (frame, number_at(&mut from, end)?),
        };
        let plain = version > DOUBLE && frame.1 & PLAIN != 0;
        let frame = if plain { (frame.0, frame.1 & !PLAIN) } else { frame };
        let behind = frame.0.checked_add(frame.1).ok_or_else(wrong)?;
        let (list, behind) = match listed {
            true => (list, behind),
            false => (behind, behind.saturating_add(u64::from(count) * 4)),
        };
        let padding = end.checked_sub(behind).filter(|padding| *padding < BLOCK as u64);
        let mut padding = vec![0; padding.ok_or_else(wrong)? as usize];
        read_at(&mut from, behind, &mut padding)?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(wrong());
        }
        let mut words = vec![0; count as usize * 4];
        read_at(&mut from, list, &mut words)?;
        let words_of = if version > DOUBLE { Change::Words } else { Change::Double };
        let pages = page_list(&words, memory_bytes, words_of)?;
        Ok(Pack { seq, memory_bytes, pages, from, hash: *hash, length, frame, plain })
    }

    /// What follows for each of its pages that have something, in order: `each` gets it. What was
    /// given counts only where this ends well: all of the file has the hash still.
    fn for_each(
        &mut self,
        mut each: impl FnMut(PageIndex, Change, &[u8]) -> Result<(), PackError>,
    ) -> Result<(), PackError> {
        let Self { pages, from, hash, length, frame, plain, .. } = self;
        from.rewind().map_err(unread)?;
        let mut from = Hashing { from, hasher: blake3::Hasher::new(), left: frame.0 };
        from.skip()?;
        from.left = frame.1;
        let mut part = BufReader::with_capacity(CHUNK, &mut from);
        if *plain {
            walk(&mut part, pages, &mut each)?;
        } else {
            let decoder = Decoder::with_buffer(part).map_err(broken)?.single_frame();
            let mut data = BufReader::with_capacity(CHUNK, decoder);
            walk(&mut data, pages, &mut each)?;
            part = data.into_inner().finish();
        }
        if part.read(&mut [0]).map_err(unread)? != 0 {
            return Err(MORE);
        }
        from.left = (*length - HASH as u64).saturating_sub(frame.0 + frame.1);
        from.skip()?;
        if from.hasher.finalize() == *hash { Ok(()) } else { Err(PackError::Damaged) }
    }
}

const MORE: PackError = PackError::Invalid("it has more bytes than its pages");

/// Gives `each` what `data` has for these pages, which is all that it has.
fn walk(
    mut data: impl Read,
    pages: &[(PageIndex, Change)],
    each: &mut impl FnMut(PageIndex, Change, &[u8]) -> Result<(), PackError>,
) -> Result<(), PackError> {
    let mut bytes = [0; PAGE + WHICH];
    let mut next = |bytes: &mut [u8]| {
        data.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => PackError::Invalid("it has fewer bytes than its pages"),
            _ => broken(error),
        })
    };
    let ones = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
    for (index, change) in pages {
        let mut known = 0;
        let length = match change {
            Change::Data => PAGE,
            Change::Words => {
                next(&mut bytes[..LINES])?;
                known = LINES + 2 * ones(&bytes[..LINES]);
                next(&mut bytes[LINES..known])?;
                known + 4 * ones(&bytes[LINES..known])
            }
            Change::Double => {
                known = WHICH;
                next(&mut bytes[..known])?;
                known + 8 * ones(&bytes[..known])
            }
            Change::Zero | Change::Base => 0,
        };
        if length > bytes.len() {
            return Err(PackError::Invalid("a page has more words than it is long"));
        }
        next(&mut bytes[known..length])?;
        each(*index, *change, &bytes[..length])?;
    }
    // Also what checks the end of what is compressed.
    match data.read(&mut bytes[..1]).map_err(broken)? {
        0 => Ok(()),
        _ => Err(MORE),
    }
}

/// Reads so much, and hashes it.
struct Hashing<R> {
    from: R,
    hasher: blake3::Hasher,
    left: u64,
}

impl<R: Read> Hashing<R> {
    /// Past what is left.
    fn skip(&mut self) -> Result<(), PackError> {
        let left = self.left;
        match io::copy(self, &mut io::sink()).map_err(unread)? == left {
            true => Ok(()),
            false => Err(PackError::Damaged),
        }
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let got = self.from.read(&mut bytes[..most])?;
        self.hasher.update(&bytes[..got]);
        self.left -= got as u64;
        Ok(got)
    }
}

fn page_list(
    list: &[u8],
    memory_bytes: u64,
    words: Change,
) -> Result<Vec<(PageIndex, Change)>, PackError> {
    let mut pages = Vec::with_capacity(list.len() / 4);
    let mut least = 0;
    for word in list.chunks_exact(4) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let index = word >> 2;
        let change = match word & 3 {
            0 => Change::Data,
            1 => Change::Zero,
            2 => Change::Base,
            _ => words,
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
/// Which pack, by its place among them, and what is wrong: the memory is then of no use.
pub fn apply<R: Read + Seek>(
    packs: &mut [Pack<R>],
    memory: &mut [u8],
) -> Result<Vec<(PageIndex, Content)>, (usize, PackError)> {
    let mut done = HashSet::new();
    let mut differ = Vec::new();
    // The newest word on a page counts.
    for (at, pack) in packs.iter_mut().enumerate().rev() {
        let applied = pack.for_each(|index, change, bytes| {
            if !done.insert(index) || change == Change::Base {
                return Ok(());
            }
            let start = index as usize * PAGE;
            let to = memory
                .get_mut(start..start + PAGE)
                .ok_or(PackError::Invalid("a page lies beyond the memory"))?;
            match change {
                // Nobody has written this page since it was the base's.
                Change::Words => put_back(to, bytes),
                Change::Double => put_double_back(to, bytes),
                Change::Data => to.copy_from_slice(bytes),
                Change::Zero | Change::Base => to.fill(0),
            }
            differ.push((index, Content::of(to)));
            Ok(())
        });
        applied.map_err(|error| (at, error))?;
    }
    differ.sort_unstable_by_key(|(index, _)| *index);
    Ok(differ)
}

/// Puts words into the page that they were taken from.
fn put_back(page: &mut [u8], bytes: &[u8]) {
    let Some((lines, rest)) = bytes.split_first_chunk() else { return };
    let lines = u64::from_le_bytes(*lines);
    let (which, words) = rest.split_at(rest.len().min(2 * lines.count_ones() as usize));
    let (mut which, mut words) = (which.as_chunks::<2>().0.iter(), words.as_chunks::<4>().0.iter());
    for (at, line) in page.as_chunks_mut::<LINE>().0.iter_mut().enumerate() {
        if lines & 1 << at == 0 {
            continue;
        }
        let which = which.next().map_or(0, |bytes| u16::from_le_bytes(*bytes));
        for (at, to) in line.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            if which & 1 << at != 0
                && let Some(word) = words.next()
            {
                *to = *word;
            }
        }
    }
}

/// The same for words of 8 bytes.
fn put_double_back(page: &mut [u8], bytes: &[u8]) {
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
