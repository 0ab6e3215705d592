//! No byte is changed, however a stream is cut.

use super::*;
use proptest::prelude::*;

fn bytes_of(piece: (String, Option<Encoding>)) -> Vec<u8> {
    match piece {
        (text, None) => text.into_bytes(),
        (text, Some(Encoding::Base64)) => decode(&text).expect("our own base64"),
    }
}

proptest! {
    #[test]
    fn pieces_are_the_stream(stream in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        "\\PC{0,60}".prop_map(String::into_bytes),
    ], cuts in prop::collection::vec(1usize..9, 1..40)) {
        let text = std::str::from_utf8(&stream).is_ok();
        let (mut pieces, mut told, mut rest) = (Pieces::default(), Vec::new(), &stream[..]);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (head, tail) = rest.split_at((*cut).min(rest.len()));
            rest = tail;
            if let Some(piece) = pieces.push(head) {
                prop_assert!(!text || piece.1.is_none(), "a text was cut inside a character");
                told.extend(bytes_of(piece));
            }
        }
        told.extend(pieces.finish().map(bytes_of).unwrap_or_default());
        prop_assert_eq!(told, stream);
    }

    #[test]
    fn a_head_is_cut_at_a_character(text in "\\PC{0,40}", limit in 0usize..60) {
        let mut head = Head::new(room(1 << 20));
        for chunk in text.as_bytes().chunks(7) {
            head.push(chunk, limit);
        }
        let (kept, encoding, truncated, _) = head.finish();
        prop_assert_eq!(encoding, None);
        prop_assert_eq!(truncated, text.len() > limit);
        prop_assert!(text.starts_with(&kept) && kept.len() <= limit);
        prop_assert!(kept.len() + 3 >= limit.min(text.len()));
    }
}

#[test]
fn invalid_bytes_are_base64_and_whole() {
    let mut head = Head::new(room(1 << 20));
    head.push(&[0xff, 0xfe, b'a'], 100);
    let (text, encoding, truncated, _) = head.finish();
    assert_eq!((&*text, encoding, truncated), ("//5h", Some(Encoding::Base64), false));
    assert_eq!(cut_tail("é€😀".as_bytes()), 0);
    assert_eq!(cut_tail(&"😀".as_bytes()[..3]), 3);
    assert_eq!(cut_tail(&[0x80, 0x80, 0x80, 0x80]), 0);
}

#[test]
fn without_room_a_head_is_cut_and_says_so_and_gives_back_what_it_took() {
    let room = room(2 * UNIT);
    let mut first = Head::new(room.clone());
    first.push(&vec![b'a'; 3 * UNIT], 100 * UNIT);
    let mut second = Head::new(room.clone());
    second.push(b"small outputs need no room", 100 * UNIT);
    second.push(&vec![b'b'; UNIT], 100 * UNIT);
    second.push(b"c", 100 * UNIT);
    let (text, _, truncated, none) = second.finish();
    assert!(truncated && text.len() == UNIT && !text.contains('c') && none.is_empty());
    let (text, _, truncated, taken) = first.finish();
    assert!(!truncated && text.len() == 3 * UNIT);
    assert_eq!(room.available_permits(), 0, "the text is still there");
    drop(taken);
    assert_eq!(room.available_permits(), 2);
}
