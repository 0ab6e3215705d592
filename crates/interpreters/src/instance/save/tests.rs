use super::*;

const A: Content = Content::Data(1);
const B: Content = Content::Data(2);

#[test]
fn changes_are_new_pages_other_pages_and_pages_that_went_back() {
    let before = [(1, A), (3, A), (5, Content::Zero), (7, A)];
    let now = [(0, A), (3, B), (5, Content::Zero), (9, A)];
    assert_eq!(changes(&before, &now), [0, 1, 3, 7, 9]);
    assert_eq!(changes(&now, &now), [] as [PageIndex; 0]);
    assert_eq!(changes(&[], &now), [0, 3, 5, 9]);
    assert_eq!(changes(&now, &[]), [0, 3, 5, 9]);
}

fn pages(count: usize) -> Vec<PageIndex> {
    (0..count as PageIndex).collect()
}

fn packs(sizes: &[usize]) -> Vec<Vec<PageIndex>> {
    sizes.iter().map(|size| pages(*size)).collect()
}

fn keep(changed: usize, live: usize, sizes: &[usize]) -> usize {
    plan(pages(changed), live, &packs(sizes)).0
}

#[test]
fn packs_grow_from_the_newest_to_the_oldest() {
    assert_eq!(keep(10, 1000, &[1000]), 1);
    assert_eq!(keep(10, 1000, &[1000, 100]), 2);
    assert_eq!(keep(60, 1000, &[1000, 100]), 1, "the small one is merged");
    assert_eq!(keep(600, 1000, &[1000, 100]), 1, "the large one is larger");
    assert_eq!(keep(1000, 1000, &[1000, 100]), 0, "all are merged");
    assert_eq!(keep(60, 1000, &[1000, 400, 300, 200, 100]), 1, "one by one");
    assert_eq!(keep(0, 1000, &[1000, 100]), 2, "nothing changed");
    assert_eq!(keep(3, 3, &[]), 0, "there is none");
}

#[test]
fn a_merged_pack_has_what_changed_in_either() {
    let (keep, list) = plan(vec![4, 90], 1000, &[pages(1000), vec![1, 4], vec![2, 4]]);
    assert_eq!((keep, list), (1, vec![1, 2, 4, 90]));
    // Steps that change the same pages leave the large pack alone.
    let mut packs = packs(&[160]);
    for _ in 0..100 {
        let (keep, list) = plan(pages(145), 160, &packs);
        assert_eq!((keep, &list), (1, &pages(145)));
        packs.truncate(keep);
        packs.push(list);
    }
}

#[test]
fn what_packs_hold_in_vain_is_bounded() {
    // Much was written once, and most of it went back to the base.
    assert_eq!(keep(10, 1000, &[5000]), 0);
    // However a context steps, its packs are few and not much larger than it is.
    for all in [100, 10_000] {
        let (mut packs, live) = (packs(&[all]), all);
        for step in 0..500 {
            let changed = (0..50 + step % 70).map(|at| (step * 7919 + at) % all);
            let mut changed: Vec<_> = changed.map(|at| at as PageIndex).collect();
            changed.sort_unstable();
            changed.dedup();
            let (keep, list) = plan(changed, live, &packs);
            packs.truncate(keep);
            packs.push(if keep == 0 { pages(all) } else { list });
            assert!(packs.len() <= 10, "{packs:?}");
            let total: usize = packs.iter().map(Vec::len).sum();
            assert!(total <= 2 * live + SLACK, "{total}");
        }
    }
}

#[test]
fn a_page_that_went_back_is_written_as_such() {
    let now = [(0, A), (3, B)];
    assert_eq!(select(&now, Some(&[0, 1, 3])), [(0, Some(A)), (1, None), (3, Some(B))]);
    assert_eq!(select(&now, None), [(0, Some(A)), (3, Some(B))]);
}
