use super::*;
use crate::trash::tests::{chain, quick_dir};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;

fn measured(path: &std::path::Path) -> u64 {
    allocated(File::open(path).unwrap().as_fd(), u64::MAX).unwrap()
}

#[test]
fn files_are_counted_once_and_links_are_not_followed() {
    let place = quick_dir();
    let empty = measured(place.path());
    let mib = 1 << 20;
    fs::write(place.path().join("a"), vec![1; mib]).unwrap();
    fs::hard_link(place.path().join("a"), place.path().join("b")).unwrap();
    symlink("/usr", place.path().join("usr")).unwrap();
    let sparse = File::create(place.path().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let grown = measured(place.path()) - empty;
    assert!((1 << 20..(1 << 20) + 65536).contains(&grown), "{grown}");
}

#[test]
fn empty_files_cost_something() {
    let place = quick_dir();
    let empty = measured(place.path());
    for n in 0..50 {
        File::create(place.path().join(n.to_string())).unwrap();
    }
    assert!(measured(place.path()) - empty >= 50 * 4096);
}

#[test]
fn what_lies_at_the_bottom_of_a_deep_tree_is_seen() {
    let place = quick_dir();
    let bottom = chain(place.path(), 3000);
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    let file = rustix::fs::openat(&bottom, "file", flags, mode).unwrap();
    File::from(file).write_all(&vec![1; 1 << 20]).unwrap();
    for n in 0..5 {
        fs::create_dir_all(place.path().join(format!("side{n}/x/y"))).unwrap();
    }
    fs::write(place.path().join("side0/x/y/f"), vec![1; 1 << 20]).unwrap();
    let bytes = measured(place.path());
    assert!(bytes >= 2 << 20, "{bytes}");
    crate::trash::empty(File::open(place.path()).unwrap().as_fd()).unwrap();
}

#[test]
fn contents_are_entries_and_lengths_without_links() {
    let place = quick_dir();
    let counted = || contents(File::open(place.path()).unwrap().as_fd()).unwrap();
    assert_eq!(counted(), (0, 0));
    let far = quick_dir();
    fs::write(far.path().join("big"), vec![1; 4096]).unwrap();
    fs::create_dir_all(place.path().join("d/e")).unwrap();
    fs::write(place.path().join("d/e/f"), "12345").unwrap();
    File::create(place.path().join("sparse")).unwrap().set_len(1 << 20).unwrap();
    symlink(far.path(), place.path().join("d/away")).unwrap();
    symlink(far.path().join("big"), place.path().join("big")).unwrap();
    assert_eq!(counted(), (6, (1 << 20) + 5));
}

#[test]
fn counting_ends_where_it_is_enough() {
    let place = quick_dir();
    for n in 0..100 {
        fs::write(place.path().join(n.to_string()), vec![1; 4096]).unwrap();
    }
    let bytes = allocated(File::open(place.path()).unwrap().as_fd(), 40_000).unwrap();
    assert!((40_001..80_000).contains(&bytes), "{bytes}");
}
