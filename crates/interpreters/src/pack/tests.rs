use super::*;
use crate::pages::{Content, PAGE, PageIndex, diff, page};
use std::io::Cursor;

const BUILD: BuildId = BuildId { wasm: [1; 32], base: [2; 32] };

fn patterned(pages: usize) -> Vec<u8> {
    (0..pages * PAGE).map(|at| (at / 7 + at / PAGE * 31) as u8).collect()
}

/// The whole file, its hash, and how many parts it was handed on in.
fn parts(
    memory: &[u8],
    base: &[u8],
    pages: &[(PageIndex, Option<Content>)],
) -> (Vec<u8>, [u8; HASH], usize) {
    let (mut file, mut parts) = (Vec::new(), 1);
    let mut take = |part: Vec<u8>| {
        assert_eq!(part.len(), PART);
        parts += 1;
        file.extend(part);
        Ok(())
    };
    let written = write(&BUILD, 3, memory, base, pages, &mut take).expect("it is written");
    file.extend(written.rest);
    assert_eq!(file.len() as u64, written.bytes);
    assert_eq!(file.len() % BLOCK, 0);
    (file, written.hash, parts)
}

fn written(memory: &[u8], pages: &[(PageIndex, Option<Content>)]) -> (Vec<u8>, [u8; HASH]) {
    let (file, hash, parts) = parts(memory, &[9; 8 * PAGE], pages);
    assert_eq!(parts, 1);
    (file, hash)
}

fn open<B: AsRef<[u8]>>(
    bytes: B,
    hash: &[u8; HASH],
    build: &BuildId,
) -> Result<Pack<Cursor<B>>, PackError> {
    Pack::open(Cursor::new(bytes), hash, build)
}

/// Bytes that no compressor makes smaller.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn of(memory: &[u8], index: PageIndex) -> (PageIndex, Option<Content>) {
    (index, Some(Content::of(page(memory, index))))
}

#[test]
fn what_was_written_is_read() {
    let mut memory = patterned(8);
    memory[2 * PAGE..3 * PAGE].fill(0);
    let pack = written(&memory, &[of(&memory, 1), of(&memory, 2), (4, None), of(&memory, 7)]);
    let read = open(&pack.0, &pack.1, &BUILD).expect("it is whole");
    assert_eq!((read.seq, read.memory_bytes), (3, 8 * PAGE as u64));
    let kinds: Vec<_> = read.pages.iter().map(|(_, change)| *change).collect();
    assert_eq!(kinds, [Change::Data, Change::Zero, Change::Base, Change::Data]);
    let base = vec![9u8; 8 * PAGE];
    let mut restored = base.clone();
    let differ = apply(&mut [read], &mut restored).expect("it fits");
    for index in [1, 2, 7] {
        assert_eq!(page(&restored, index), page(&memory, index));
    }
    assert_eq!(page(&restored, 4), page(&base, 4));
    assert_eq!(differ, diff(&restored, &base, &(0..8).collect::<Vec<_>>(), &[]));
}

#[test]
fn the_newest_pack_counts_and_can_take_pages_back() {
    let base = vec![9u8; 4 * PAGE];
    let one = patterned(4);
    let mut two = one.clone();
    two[PAGE] ^= 1;
    let old = written(&one, &[of(&one, 0), of(&one, 1), of(&one, 2)]);
    let new = written(&two, &[of(&two, 1), (2, None)]);
    let mut packs = [old, new].map(|(file, hash)| open(file, &hash, &BUILD).expect("whole"));
    let mut memory = base.clone();
    apply(&mut packs, &mut memory).expect("it fits");
    assert_eq!(page(&memory, 0), page(&one, 0));
    assert_eq!(page(&memory, 1), page(&two, 1));
    assert_eq!(page(&memory, 2), page(&base, 2));
    assert_eq!(page(&memory, 3), page(&base, 3));
}

#[test]
fn a_page_that_changed_in_a_few_bytes_takes_next_to_nothing() {
    let base = noise(16 * PAGE);
    let mut memory = base.clone();
    (0..16).for_each(|page| memory[page * PAGE + 99] ^= 0x55);
    // One that changed all over, and one beyond the base.
    memory[3 * PAGE..4 * PAGE].copy_from_slice(&base[5 * PAGE..6 * PAGE]);
    memory.extend(vec![7; PAGE]);
    let pages: Vec<_> = (0..17).map(|index| of(&memory, index)).collect();
    let pack = parts(&memory, &base, &pages);
    // Those two are there as they are.
    assert!(pack.0.len() <= 3 * PAGE, "{} bytes", pack.0.len());
    let read = open(&pack.0, &pack.1, &BUILD).expect("it is whole");
    assert_eq!((read.pages[0].1, read.pages[3].1), (Change::Words, Change::Data));
    let mut restored = base.clone();
    restored.extend(vec![0; PAGE]);
    let differ = apply(&mut [read], &mut restored).expect("it fits");
    assert_eq!(restored, memory);
    assert_eq!(differ, diff(&memory, &base, &(0..17).collect::<Vec<_>>(), &[]));
}

#[test]
fn a_pack_of_no_pages_is_one() {
    let pack = written(&[], &[]);
    let read = open(&pack.0, &pack.1, &BUILD).expect("it is whole");
    assert_eq!(apply(&mut [read], &mut []), Ok(vec![]));
}

#[test]
fn every_flipped_bit_is_an_error() {
    let memory = patterned(3);
    let (bytes, hash) = written(&memory, &[of(&memory, 0), (1, None), of(&memory, 2)]);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << bit;
            assert_eq!(open(&bad, &hash, &BUILD).err(), Some(PackError::Damaged), "{at}.{bit}");
        }
    }
}

#[test]
fn every_cut_and_every_addition_is_an_error() {
    let memory = patterned(2);
    let (mut bytes, hash) = written(&memory, &[of(&memory, 0), of(&memory, 1)]);
    for len in 0..bytes.len() {
        let error = open(&bytes[..len], &hash, &BUILD).expect_err("it is cut");
        assert!(matches!(error, PackError::Short(_) | PackError::Damaged), "{len}: {error}");
    }
    bytes.push(0);
    assert_eq!(open(&bytes, &hash, &BUILD).err(), Some(PackError::Damaged));
}

#[test]
fn a_whole_pack_that_is_another_is_an_error() {
    let memory = patterned(1);
    let one = written(&memory, &[of(&memory, 0)]);
    let other = written(&memory, &[]);
    assert_eq!(open(&other.0, &one.1, &BUILD).err(), Some(PackError::Damaged));
    let build = BuildId { wasm: [1; 32], base: [3; 32] };
    assert_eq!(open(&one.0, &one.1, &build).err(), Some(PackError::OtherBuild));
}

/// Packs whose hash is right, but whose contents nobody writes.
#[test]
fn contradictions_are_errors_and_take_no_memory() {
    let memory = patterned(2);
    let good = written(&memory, &[of(&memory, 0), of(&memory, 1)]).0;
    let length = good.len() - HASH - LENGTH;
    let frame = number(&good, length);
    let list = HEADER + (frame & !PLAIN) as usize;
    let cases: [(usize, &[u8]); 9] = [
        (0, b"NOTAPACK"),
        (8, &9u32.to_le_bytes()),
        (8, &3u32.to_le_bytes()),
        (12, &u32::MAX.to_le_bytes()),
        (HEADER - 8, &u64::MAX.to_le_bytes()),
        (length, &u64::MAX.to_le_bytes()),
        (length, &(frame + 1).to_le_bytes()),
        (length - 1, &[1]),
        (list, &(1u32 << 2).to_le_bytes()),
    ];
    for (at, bytes) in cases {
        let mut bad = good[..good.len() - HASH].to_vec();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        let hash = *blake3::hash(&bad).as_bytes();
        bad.extend_from_slice(&hash);
        let error = open(&bad, &hash, &BUILD).expect_err("it is nonsense");
        assert!(matches!(error, PackError::Invalid(_) | PackError::Version(9)), "{at}: {error}");
    }
}

/// The number of 8 bytes that is there.
fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// What comes of a pack of this version, of two pages of these kinds, which holds this of them.
fn unpacked(
    version: u32,
    kinds: [u32; 2],
    part: &[u8],
    plain: u64,
) -> Result<Vec<(PageIndex, Content)>, (usize, PackError)> {
    let mut bytes = written(&[0; 2 * PAGE], &[]).0;
    bytes.truncate(HEADER);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[12] = 2;
    bytes.extend_from_slice(part);
    bytes.extend([kinds[0], 1 << 2 | kinds[1]].map(u32::to_le_bytes).concat());
    bytes.extend_from_slice(&(part.len() as u64 | plain).to_le_bytes());
    let hash = *blake3::hash(&bytes).as_bytes();
    bytes.extend_from_slice(&hash);
    let mut packs = [open(bytes, &hash, &BUILD).map_err(|error| (0, error))?];
    apply(&mut packs, &mut vec![9; 8 * PAGE])
}

/// Packs whose hash, list and lengths are right, and whose pages are not.
#[test]
fn parts_that_are_not_compressed_and_too_short_or_long_are_errors() {
    let pack = |part: &[u8]| unpacked(VERSION, [0, 3], part, PLAIN);
    // A page, and one of which the last word of the last line is another one.
    let two = [1 << 63, u64::from(1u16 << 15)].map(u64::to_le_bytes).concat();
    let good = [&patterned(1)[..], &two[..10], b"word"].concat();
    assert_eq!(pack(&good).map(|differ| differ.len()), Ok(2));
    let full = [&patterned(1)[..], &[255; 8 + 128 + PAGE]].concat();
    let longer = [&good[..], &[0]].concat();
    for bad in [&good[..PAGE], &good[..PAGE + 9], &good[..good.len() - 1], &longer, &full, &[]] {
        let error = pack(bad).expect_err("it is nonsense");
        assert!(matches!(error, (0, PackError::Invalid(_))), "{}: {error:?}", bad.len());
    }
    // Those before do not have it.
    assert!(unpacked(DOUBLE, [0, 3], &good, PLAIN).is_err());
}

/// Packs whose hash, list and lengths are right, and whose compressed part is not.
#[test]
fn compressed_parts_that_are_too_short_long_or_none_are_errors() {
    let pack = |part: &[u8]| unpacked(VERSION, [0, 0], part, 0);
    let of = |bytes: usize| zstd::bulk::compress(&patterned(3)[..bytes], 1).expect("it compresses");
    assert_eq!(pack(&of(2 * PAGE)).map(|differ| differ.len()), Ok(2));
    let cut = &of(2 * PAGE)[..20];
    let two = [of(PAGE), of(PAGE)].concat();
    let behind = [of(2 * PAGE), vec![0]].concat();
    for bad in [&of(2 * PAGE - 1)[..], &of(2 * PAGE + 1), cut, &[], b"nonsense", &two, &behind] {
        let error = pack(bad).expect_err("it is nonsense");
        assert!(matches!(error, (0, PackError::Invalid(_))), "{}: {error:?}", bad.len());
    }
}

#[test]
fn a_large_pack_comes_in_parts() {
    let base = vec![9u8; 8 * PAGE];
    let mut memory = noise(13 * PART + 3 * PAGE);
    memory[PART..PART + 5 * PAGE].fill(0);
    let count = (memory.len() / PAGE) as PageIndex;
    let pages: Vec<_> = (0..count).map(|index| of(&memory, index)).collect();
    let (file, hash, parts) = parts(&memory, &base, &pages);
    assert!(parts > 12, "{parts} parts");
    let mut restored = base;
    restored.resize(memory.len(), 0);
    let read = open(&file, &hash, &BUILD).expect("it is whole");
    let differ = apply(&mut [read], &mut restored).expect("it fits");
    assert!(restored == memory);
    assert_eq!(differ.len(), pages.len());
    // Cut between parts and inside them, and a bit in each.
    for len in [PART, PART + 1, 2 * PART, file.len() - BLOCK, file.len() - 1] {
        assert_eq!(open(&file[..len], &hash, &BUILD).err(), Some(PackError::Damaged), "{len}");
    }
    for at in [0, HEADER, PART - 1, PART, 2 * PART, file.len() - 1] {
        let mut bad = file.clone();
        bad[at] ^= 4;
        assert_eq!(open(&bad, &hash, &BUILD).err(), Some(PackError::Damaged), "{at}");
    }
}

#[test]
fn who_does_not_take_a_part_ends_it() {
    let memory = noise(9 * PART);
    let pages: Vec<_> = (0..(9 * PART / PAGE) as PageIndex).map(|at| of(&memory, at)).collect();
    let full = |_| Err(std::io::ErrorKind::StorageFull.into());
    let error = write(&BUILD, 1, &memory, &[], &pages, &mut { full }).expect_err("it is full");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    // What is kept for the next one is not harmed by it.
    let memory = patterned(1);
    let (file, hash) = written(&memory, &[of(&memory, 0)]);
    assert!(open(file, &hash, &BUILD).is_ok());
}

/// Pages that differ from their base in any number of words, at any places, in any of their bytes.
#[test]
fn pages_are_as_they_were_however_they_differ() {
    let mut random = noise(1 << 20).into_iter();
    let mut random = move || usize::from(random.next().expect("there is more"));
    let base = noise(64 * PAGE);
    for most in [1, 3, 40, 400, 3000] {
        let mut memory = base.clone();
        for page in memory.chunks_mut(PAGE) {
            (0..random() * most / 255).for_each(|_| {
                page[(random() << 8 | random()) % PAGE] ^= 1 << (random() % 8);
            });
        }
        // The first and the last word of the first and the last line.
        for at in [0, 60, PAGE - 64, PAGE - 1] {
            memory[at] ^= 1;
        }
        let pages = diff(&memory, &base, &(0..64).collect::<Vec<_>>(), &[]);
        let listed: Vec<_> =
            pages.iter().map(|(index, content)| (*index, Some(*content))).collect();
        let (file, hash, _) = parts(&memory, &base, &listed);
        let mut restored = base.clone();
        let read = open(file, &hash, &BUILD).expect("it is whole");
        assert_eq!(apply(&mut [read], &mut restored), Ok(pages), "{most}");
        assert!(restored == memory, "{most}");
    }
}

/// As the program before this one wrote them.
#[test]
fn words_of_eight_bytes_are_read() {
    let mut part = [[0u8; 64], [0; 64]];
    (part[0][0], part[0][63], part[1][9]) = (1, 1 << 7, 2);
    let raw = [&part[0][..], b"firstone", b"last one", &part[1], b"8 * 73.."].concat();
    let compressed = zstd::bulk::compress(&raw, 1).expect("it compresses");
    let differ = unpacked(DOUBLE, [3, 3], &compressed, 0).expect("it is read");
    let mut memory = vec![9; 2 * PAGE];
    memory[..8].copy_from_slice(b"firstone");
    memory[PAGE - 8..PAGE].copy_from_slice(b"last one");
    memory[PAGE + 8 * 73..][..8].copy_from_slice(b"8 * 73..");
    assert_eq!(differ, [0, 1].map(|index| (index, Content::of(page(&memory, index)))));
}

/// As programs before that wrote them.
#[test]
fn packs_of_older_versions_are_read() {
    let memory = patterned(2);
    let frame = zstd::bulk::compress(&memory, 1).expect("it compresses");
    for (version, padding) in [(2u32, 0), (3, 77)] {
        let mut bytes = [&MAGIC[..], &version.to_le_bytes(), &2u32.to_le_bytes()].concat();
        bytes.extend([BUILD.wasm, BUILD.base].concat());
        for number in [7, 2 * PAGE as u64, frame.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([0u32.to_le_bytes(), (1u32 << 2).to_le_bytes()].concat());
        bytes.extend(&frame);
        bytes.resize(bytes.len() + padding, 0);
        let hash = *blake3::hash(&bytes).as_bytes();
        bytes.extend(hash);
        let pack = open(bytes, &hash, &BUILD).expect("it is read");
        assert_eq!((pack.seq, pack.memory_bytes), (7, 2 * PAGE as u64));
        let mut restored = vec![9; 2 * PAGE];
        apply(&mut [pack], &mut restored).expect("it fits");
        assert!(restored == memory, "version {version}");
    }
}

/// A file that is read whole once, and then has a bit that is another one.
struct Rotting {
    file: Cursor<Vec<u8>>,
    at: usize,
    rewinds: u32,
}

impl std::io::Read for Rotting {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.file.read(bytes)
    }
}

impl std::io::Seek for Rotting {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        if to == std::io::SeekFrom::Start(0) {
            self.rewinds += 1;
        }
        // To be checked, for its fixed part, and then for its pages.
        if self.rewinds == 3 {
            self.file.get_mut()[self.at] ^= 1;
            self.rewinds += 1;
        }
        self.file.seek(to)
    }
}

#[test]
fn what_is_unpacked_is_what_was_checked() {
    // Noise is not compressed: a bit of it that changes is no error to who unpacks it.
    let memory = noise(3 * PART);
    let pages: Vec<_> = (0..(3 * PART / PAGE) as PageIndex).map(|at| of(&memory, at)).collect();
    let (file, hash, _) = parts(&memory, &[], &pages);
    for at in [9, PART, 2 * PART + 77, file.len() - HASH - LENGTH - 1] {
        let rotting = Rotting { file: Cursor::new(file.clone()), at, rewinds: 0 };
        let pack = Pack::open(rotting, &hash, &BUILD).expect("it is whole");
        let error = apply(&mut [pack], &mut vec![0; memory.len()]).expect_err("it changed");
        assert_eq!(error, (0, PackError::Damaged), "{at}");
    }
}
