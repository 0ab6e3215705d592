use super::*;

fn memory(pages: usize) -> Vec<u8> {
    vec![0; pages * PAGE]
}

#[test]
fn negated_doubles_differ() {
    let mut base = memory(1);
    for (index, slot) in base.chunks_exact_mut(8).enumerate() {
        slot.copy_from_slice(&(index as f64 + 0.5).to_le_bytes());
    }
    let mut negated = base.clone();
    negated.chunks_exact_mut(8).for_each(|slot| slot[7] ^= 0x80);
    assert_eq!(diff(&negated, &base, &[0], &[]).len(), 1);
    assert_ne!(Content::of(&negated), Content::of(&base));
}

#[test]
fn pages_beyond_the_base_are_compared_with_zeros() {
    let base = memory(2);
    let mut grown = memory(4);
    grown[3 * PAGE] = 1;
    let found = diff(&grown, &base, &[0, 1, 2, 3], &[]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, 3);
}

#[test]
fn a_page_that_became_zero_is_told_apart_from_one_that_did_not_change() {
    let base = vec![7u8; 3 * PAGE];
    let mut now = base.clone();
    now[PAGE..2 * PAGE].fill(0);
    assert_eq!(diff(&now, &base, &[0, 1, 2], &[]), vec![(1, Content::Zero)]);
}

#[test]
fn what_differed_before_is_found_by_its_hash_and_looked_at_anew_where_it_is_another() {
    let base = vec![7u8; 6 * PAGE];
    let mut now = base.clone();
    (1..6).for_each(|page| now[page * PAGE] = 1);
    let all: Vec<_> = (0..6).collect();
    let before = diff(&now, &base, &all, &[]);
    assert_eq!(before.len(), 5);
    assert_eq!(diff(&now, &base, &all, &before), before);
    // One as in the base again, one with other bytes, one zero, one new.
    now[PAGE] = 7;
    now[2 * PAGE] = 2;
    now[3 * PAGE..4 * PAGE].fill(0);
    now[0] = 9;
    let after = diff(&now, &base, &all, &before);
    assert_eq!(after, diff(&now, &base, &all, &[]));
    assert_eq!(after.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 2, 3, 4, 5]);
    // What is not among those that were written is not found, whatever it was before.
    assert_eq!(diff(&now, &base, &[4], &before), [after[3]]);
}

#[test]
fn counts_follow_the_contract() {
    // 2 MiB and one page of 64 KiB: non-zero are pages 0 and 17 of 4 KiB, and the last one.
    let mut base = memory(2 * 256 + 16);
    base[5] = 1;
    base[17 * PAGE] = 1;
    let last = base.len() - 1;
    base[last] = 1;
    let bits = NonZero::of(&base);
    assert_eq!(bits.count(&[]), (3, 2));
    assert_eq!(bits.count(&[(0, Content::Zero)]), (2, 2));
    assert_eq!(bits.count(&[(0, Content::Zero), (17, Content::Zero)]), (1, 1));
    assert_eq!(bits.count(&[(300, Content::Data(1)), (9999, Content::Data(1))]), (5, 4));
    assert_eq!(NonZero::from_hex(&bits.to_hex()), Some(bits));
    assert_eq!(NonZero::from_hex("xyz"), None);
}

#[test]
fn the_page_map_knows_what_was_written() {
    let map = PageMap::open();
    assert!(map.is_known(), "/proc/self/pagemap is there");
    let mut memory = vec![0u8; 64 * PAGE + PAGE];
    // Vectors are not aligned: begin at the first whole page.
    let start = memory.as_ptr().align_offset(PAGE);
    let memory = &mut memory[start..start + 64 * PAGE];
    memory[5 * PAGE] = 1;
    memory[63 * PAGE] = 1;
    let written = map.written(memory);
    assert!(written.contains(&5) && written.contains(&63));
    // The whole map says the same as the call that asks for it, where the kernel has that.
    let scanned = map.scan(memory, 64).expect("it is there");
    assert_eq!(scanned, written);
    assert!(map.ask(memory).is_none_or(|asked| asked == scanned));
    assert_eq!(PageMap::unknown().written(memory).len(), 64);
}
