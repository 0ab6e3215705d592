use super::*;
use types::Encoding;

fn collected(writes: &[(Stream, &[u8], i64)]) -> Logs {
    let mut all = Collected::default();
    for (stream, bytes, at) in writes {
        all.push(*stream, bytes, *at);
    }
    all.finish(false)
}

#[test]
fn lines_are_cut_and_order_is_kept() {
    use Stream::{Stderr, Stdout};
    let logs = collected(&[
        (Stdout, b"one\ntwo", 1),
        (Stderr, b"bad\n", 1),
        (Stdout, b" more\n\n", 2),
        (Stdout, b"same\n", 2),
    ]);
    assert_eq!(logs.stdout, ["one", "two more", "", "same"]);
    assert_eq!(logs.stderr, ["bad"]);
    let entries: Vec<_> = logs.entries.iter().map(|e| (e.stream, &*e.text, e.at)).collect();
    let wanted = [(Stdout, "one\ntwo", 1), (Stderr, "bad\n", 1), (Stdout, " more\n\nsame\n", 2)];
    assert_eq!(entries, wanted);
}

#[test]
fn characters_are_whole_and_bytes_are_kept() {
    use Stream::Stdout;
    let euro = "€".as_bytes();
    let logs = collected(&[(Stdout, &euro[..1], 1), (Stdout, &euro[1..], 2), (Stdout, b"\xff", 3)]);
    assert_eq!(logs.stdout, ["€\\xff"]);
    assert_eq!((&*logs.entries[0].text, logs.entries[0].encoding), ("€", None));
    assert_eq!(
        (&*logs.entries[1].text, logs.entries[1].encoding),
        ("/w==", Some(Encoding::Base64))
    );
    let cut = collected(&[(Stdout, &euro[..2], 1)]);
    assert_eq!(cut.stdout, ["\\xe2\\x82"]);
    assert_eq!(cut.entries.len(), 1);
}

#[test]
fn nothing_is_no_line() {
    assert!(collected(&[]).stdout.is_empty());
    assert_eq!(collected(&[(Stream::Stdout, b"\n", 1)]).stdout, [""]);
    assert_eq!(collected(&[(Stream::Stdout, b"\n\n", 1)]).stdout, ["", ""]);
}

#[test]
fn many_small_writes_are_few_entries() {
    let mut all = Collected::default();
    for i in 0..100_000 {
        all.push(Stream::Stdout, b"x", i);
    }
    let logs = all.finish(true);
    assert!(logs.entries.len() <= ENTRIES && logs.truncated);
    assert_eq!(logs.entries.iter().map(|e| e.text.len()).sum::<usize>(), 100_000);
}
