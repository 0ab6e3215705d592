//! Which gaps are remembered.

use super::*;

fn at(base: Instant, ms: u64) -> Instant {
    base + Duration::from_millis(ms)
}

#[test]
fn a_hiccup_after_a_long_gap_does_not_hide_it() {
    let base = Instant::now();
    let mut gap = Gap { ended: base, length: Duration::from_secs(10) };
    assert!(!note(&mut gap, at(base, 100), at(base, 190)));
    assert_eq!(gap.length, Duration::from_secs(10));
    assert!(note(&mut gap, at(base, 200), at(base, 11_000)), "a longer one counts");
    assert!(!note(&mut gap, at(base, 11_000), at(base, 11_040)), "too short to count");
    assert!(note(&mut gap, at(base, 17_000), at(base, 17_060)), "the long one is history");
    assert_eq!(gap.length, Duration::from_millis(60));
}
