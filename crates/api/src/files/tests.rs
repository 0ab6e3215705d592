use super::one_range;

#[test]
fn ranges_are_read_as_the_rfc_has_them() {
    for (text, range) in [
        ("bytes=0-0", Some((0, 1))),
        ("bytes=2-5", Some((2, 6))),
        ("bytes=2-", Some((2, 10))),
        ("bytes=-3", Some((7, 10))),
        ("bytes=-30", Some((0, 10))),
        ("bytes=5-99", Some((5, 100))),
        ("Bytes = 1 - 2", Some((1, 3))),
        ("bytes=10-", Some((10, 10))),
        ("bytes=-0", Some((10, 10))),
        ("bytes=99999999999999999999999-", Some((u64::MAX, 10))),
        ("bytes=5-2", None),
        ("bytes=0-1,3-4", None),
        ("bytes=a-b", None),
        ("bytes=+1-2", None),
        ("bytes=-", None),
        ("lines=1-2", None),
        ("bytes", None),
        ("", None),
    ] {
        let found = one_range(text, 10).map(|range| (range.start, range.end));
        assert_eq!(found, range, "{text:?}");
    }
}
