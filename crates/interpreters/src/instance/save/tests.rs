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

fn packs(sizes: &[usize]) -> Vec<Vec<PageIndex>> {
    sizes.iter().map(|size| (0..*size as PageIndex).collect()).collect()
}

#[test]
fn small_contexts_are_written_whole() {
    assert_eq!(keep(3, WHOLE, &packs(&[WHOLE])), 0);
    assert_eq!(keep(0, 0, &packs(&[])), 0);
}

#[test]
fn packs_halve_in_size() {
    assert_eq!(keep(10, 1000, &packs(&[1000])), 1);
    assert_eq!(keep(10, 1000, &packs(&[1000, 100])), 2);
    assert_eq!(keep(60, 1000, &packs(&[1000, 100])), 1, "the small one is merged");
    assert_eq!(keep(600, 1000, &packs(&[1000, 100])), 0, "all are merged");
    assert_eq!(keep(0, 1000, &packs(&[1000, 100])), 2, "nothing changed");
}

#[test]
fn what_packs_hold_in_vain_is_bounded() {
    // Much was written once, and most of it went back to the base.
    assert_eq!(keep(10, 1000, &packs(&[5000])), 0);
    // However a context steps, its packs are few and not much larger than it is.
    let (mut sizes, live) = (vec![10_000], 10_000);
    for step in 0..500 {
        let changed = 50 + step % 70;
        let kept = keep(changed, live, &packs(&sizes));
        let merged: usize = sizes[kept..].iter().sum::<usize>() + changed;
        sizes.truncate(kept);
        sizes.push(merged.min(live));
        assert!(sizes.len() <= 10, "{sizes:?}");
        assert!(sizes.iter().sum::<usize>() <= 2 * live + WHOLE, "{sizes:?}");
    }
}

#[test]
fn a_page_that_went_back_is_written_as_such() {
    let now = [(0, A), (3, B)];
    assert_eq!(select(&now, Some(&[0, 1, 3])), [(0, Some(A)), (1, None), (3, Some(B))]);
    assert_eq!(select(&now, None), [(0, Some(A)), (3, Some(B))]);
}
