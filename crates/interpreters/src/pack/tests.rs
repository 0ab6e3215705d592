use super::*;
use crate::pages::diff;

const BUILD: BuildId = BuildId { wasm: [1; 32], base: [2; 32] };

fn patterned(pages: usize) -> Vec<u8> {
    (0..pages * PAGE).map(|at| (at / 7 + at / PAGE * 31) as u8).collect()
}

fn written(memory: &[u8], pages: &[(PageIndex, Option<Content>)]) -> Written {
    write(&BUILD, 3, memory, &[9; 8 * PAGE], pages).expect("it is written")
}

fn of(memory: &[u8], index: PageIndex) -> (PageIndex, Option<Content>) {
    (index, Some(Content::of(page(memory, index))))
}

#[test]
fn what_was_written_is_read() {
    let mut memory = patterned(8);
    memory[2 * PAGE..3 * PAGE].fill(0);
    let pack = written(&memory, &[of(&memory, 1), of(&memory, 2), (4, None), of(&memory, 7)]);
    let read = Pack::read(&pack.bytes, &pack.hash, &BUILD).expect("it is whole");
    assert_eq!((read.seq, read.memory_bytes), (3, 8 * PAGE as u64));
    let kinds: Vec<_> = read.pages.iter().map(|(_, change)| *change).collect();
    assert_eq!(kinds, [Change::Data, Change::Zero, Change::Base, Change::Data]);
    let base = vec![9u8; 8 * PAGE];
    let mut restored = base.clone();
    let differ = apply(&[read], &mut restored).expect("it fits");
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
    let packs = [old, new].map(|w| Pack::read(&w.bytes, &w.hash, &BUILD).expect("whole"));
    let mut memory = base.clone();
    apply(&packs, &mut memory).expect("it fits");
    assert_eq!(page(&memory, 0), page(&one, 0));
    assert_eq!(page(&memory, 1), page(&two, 1));
    assert_eq!(page(&memory, 2), page(&base, 2));
    assert_eq!(page(&memory, 3), page(&base, 3));
}

#[test]
fn a_page_that_changed_in_a_few_bytes_takes_next_to_nothing() {
    // Noise, that no compressor makes smaller.
    let mut state = 1u64;
    let base: Vec<u8> = (0..16 * PAGE)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let mut memory = base.clone();
    (0..16).for_each(|page| memory[page * PAGE + 99] ^= 0x55);
    // One that changed all over, and one beyond the base.
    memory[3 * PAGE..4 * PAGE].copy_from_slice(&base[5 * PAGE..6 * PAGE]);
    memory.extend(vec![7; PAGE]);
    let pages: Vec<_> = (0..17).map(|index| of(&memory, index)).collect();
    let pack = write(&BUILD, 1, &memory, &base, &pages).expect("it is written");
    assert!(pack.bytes.len() <= 2 * PAGE, "{} bytes", pack.bytes.len());
    let read = Pack::read(&pack.bytes, &pack.hash, &BUILD).expect("it is whole");
    assert_eq!((read.pages[0].1, read.pages[3].1), (Change::Words, Change::Data));
    let mut restored = base.clone();
    restored.extend(vec![0; PAGE]);
    let differ = apply(&[read], &mut restored).expect("it fits");
    assert_eq!(restored, memory);
    assert_eq!(differ, diff(&memory, &base, &(0..17).collect::<Vec<_>>(), &[]));
}

#[test]
fn a_pack_of_no_pages_is_one() {
    let pack = written(&[], &[]);
    let read = Pack::read(&pack.bytes, &pack.hash, &BUILD).expect("it is whole");
    assert_eq!(apply(&[read], &mut []), Ok(vec![]));
}

#[test]
fn every_flipped_bit_is_an_error() {
    let memory = patterned(3);
    let Written { bytes, hash } = written(&memory, &[of(&memory, 0), (1, None), of(&memory, 2)]);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << bit;
            assert_eq!(Pack::read(&bad, &hash, &BUILD), Err(PackError::Damaged), "{at}.{bit}");
        }
    }
}

#[test]
fn every_cut_and_every_addition_is_an_error() {
    let memory = patterned(2);
    let Written { mut bytes, hash } = written(&memory, &[of(&memory, 0), of(&memory, 1)]);
    for len in 0..bytes.len() {
        let error = Pack::read(&bytes[..len], &hash, &BUILD).expect_err("it is cut");
        assert!(matches!(error, PackError::Short(_) | PackError::Damaged), "{len}: {error}");
    }
    bytes.push(0);
    assert_eq!(Pack::read(&bytes, &hash, &BUILD), Err(PackError::Damaged));
}

#[test]
fn a_whole_pack_that_is_another_is_an_error() {
    let memory = patterned(1);
    let one = written(&memory, &[of(&memory, 0)]);
    let other = written(&memory, &[]);
    assert_eq!(Pack::read(&other.bytes, &one.hash, &BUILD), Err(PackError::Damaged));
    let build = BuildId { wasm: [1; 32], base: [3; 32] };
    assert_eq!(Pack::read(&one.bytes, &one.hash, &build), Err(PackError::OtherBuild));
}

/// Packs whose hash is right, but whose contents nobody writes.
#[test]
fn contradictions_are_errors_and_take_no_memory() {
    let memory = patterned(2);
    let good = written(&memory, &[of(&memory, 0), of(&memory, 1)]).bytes;
    let list = HEADER;
    let cases: [(usize, &[u8]); 6] = [
        (0, b"NOTAPACK"),
        (8, &9u32.to_le_bytes()),
        (12, &u32::MAX.to_le_bytes()),
        (HEADER - 16, &u64::MAX.to_le_bytes()),
        (HEADER - 8, &u64::MAX.to_le_bytes()),
        (list, &(1u32 << 2).to_le_bytes()),
    ];
    for (at, bytes) in cases {
        let mut bad = good[..good.len() - HASH].to_vec();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        let hash = *blake3::hash(&bad).as_bytes();
        bad.extend_from_slice(&hash);
        let error = Pack::read(&bad, &hash, &BUILD).expect_err("it is nonsense");
        assert!(matches!(error, PackError::Invalid(_) | PackError::Version(9)), "{at}: {error}");
    }
}
