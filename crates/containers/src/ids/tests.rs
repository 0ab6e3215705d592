use super::*;

#[test]
fn ranges_are_disjoint_and_come_back() {
    let pool = Pool::new(524_288, "");
    let a = pool.take().unwrap();
    let b = pool.take().unwrap();
    assert_eq!((a.base(), b.base()), (524_288, 589_824));
    drop(a);
    // The one just given back rests.
    assert_eq!(pool.take().unwrap().base(), 655_360);
}

#[test]
fn ranges_of_others_are_left_out() {
    let pool = Pool::new(100_000, "ada:100000:65536\nbad line\nbob:200000:1\n");
    assert_eq!(pool.take().unwrap().base(), 231_072);
}

#[test]
fn adopted_ranges_of_another_base_are_left_out() {
    let pool = Pool::new(524_288, "");
    let _adopted = pool.adopt(524_289);
    assert_eq!(pool.take().unwrap().base(), 655_360);
}

#[test]
fn the_pool_ends_and_starts_again() {
    let pool = Pool::new(END - 3 * COUNT, "");
    let all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    assert!((2..=3).contains(&all.len()), "{}", all.len());
    drop(all);
    assert!(pool.take().is_some());
}
