use super::*;
use std::sync::mpsc;

enum Got {
    Piece(Stream, Vec<u8>, i64),
    Result(RichResult),
}

struct Channel(mpsc::Sender<Got>);

impl Sink for Channel {
    fn output(&mut self, stream: Stream, bytes: Vec<u8>, at: i64) {
        self.0.send(Got::Piece(stream, bytes, at)).expect("somebody reads");
    }

    fn result(&mut self, result: RichResult) {
        self.0.send(Got::Result(result)).expect("somebody reads");
    }
}

/// What comes out of these writes at these times.
fn pieces(max: usize, writes: &[(Stream, &[u8], i64)]) -> (Vec<(Stream, Vec<u8>)>, Totals) {
    let (sender, receiver) = mpsc::channel();
    let output = Output::default();
    output.begin(Box::new(Channel(sender)), max);
    for (stream, bytes, at) in writes {
        output.lock().write(*stream, bytes, *at);
    }
    let totals = output.end();
    let pieces = receiver.iter().map(|got| match got {
        Got::Piece(stream, bytes, _) => (stream, bytes),
        Got::Result(_) => panic!("nothing was displayed"),
    });
    (pieces.collect(), totals)
}

use Stream::{Stderr, Stdout};

#[test]
fn writes_that_follow_closely_are_one_piece_and_order_stays() {
    let (got, totals) = pieces(
        100,
        &[
            (Stdout, b"a", 0),
            (Stdout, b"b", 1),
            (Stderr, b"c", 2),
            (Stdout, b"d", 3),
            (Stdout, b"e", 1000),
        ],
    );
    let want: Vec<(Stream, Vec<u8>)> = vec![
        (Stdout, b"ab".to_vec()),
        (Stderr, b"c".to_vec()),
        (Stdout, b"d".to_vec()),
        (Stdout, b"e".to_vec()),
    ];
    assert_eq!(got, want);
    assert_eq!(totals, Totals { bytes: 5, truncated: false });
}

#[test]
fn characters_are_never_cut() {
    let text = "aé€😀".repeat(50);
    for size in 1..9 {
        let writes: Vec<_> = text
            .as_bytes()
            .chunks(size)
            .enumerate()
            .map(|(index, chunk)| (Stdout, chunk, index as i64 * 1000))
            .collect();
        let (got, _) = pieces(10_000, &writes);
        assert!(got.iter().all(|(_, bytes)| std::str::from_utf8(bytes).is_ok()), "size {size}");
        let all: Vec<u8> = got.into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert_eq!(all, text.as_bytes());
    }
}

#[test]
fn a_character_waits_while_the_other_stream_writes() {
    let (got, _) =
        pieces(100, &[(Stdout, b"\xe2\x82", 0), (Stderr, b"x", 1), (Stdout, b"\xac", 2)]);
    assert_eq!(got, vec![(Stderr, b"x".to_vec()), (Stdout, "€".as_bytes().to_vec())]);
}

#[test]
fn bytes_that_are_no_text_come_as_they_are() {
    let bytes = [0xff, 0x80, 0xc0, b'a', 0xf5, 0xe2];
    let (got, _) = pieces(100, &[(Stdout, &bytes, 0)]);
    let all: Vec<u8> = got.into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(all, bytes);
}

#[test]
fn what_is_over_the_limit_is_counted_and_dropped_at_a_character() {
    let (got, totals) =
        pieces(5, &[(Stdout, "ab€€".as_bytes(), 0), (Stdout, b"z", 1), (Stderr, b"y", 2)]);
    assert_eq!(got, vec![(Stdout, "ab€".as_bytes().to_vec())]);
    assert_eq!(totals, Totals { bytes: 10, truncated: true });
    let (got, totals) = pieces(4, &[(Stdout, "ab€".as_bytes(), 0), (Stdout, b"zzz", 1)]);
    assert_eq!(got, vec![(Stdout, b"ab".to_vec())]);
    assert!(totals.truncated);
}

#[test]
fn what_fits_exactly_is_not_truncated() {
    let (got, totals) = pieces(3, &[(Stdout, b"abc", 0)]);
    assert_eq!(got, vec![(Stdout, b"abc".to_vec())]);
    assert_eq!(totals, Totals { bytes: 3, truncated: false });
}

#[test]
fn what_waits_goes_on_in_time() {
    let (sender, receiver) = mpsc::channel();
    let output = Output::default();
    output.begin(Box::new(Channel(sender)), 100);
    output.lock().write(Stdout, b"a", 0);
    output.flush_due(1);
    assert!(receiver.try_recv().is_err(), "it may grow yet");
    output.flush_due(MERGE_MS);
    assert!(matches!(receiver.try_recv(), Ok(Got::Piece(Stdout, bytes, 0)) if bytes == b"a"));
}

#[test]
fn displayed_results_come_in_order_with_output_and_have_limits() {
    let (sender, receiver) = mpsc::channel();
    let output = Output::default();
    output.begin(Box::new(Channel(sender)), 100);
    output.lock().write(Stdout, b"a", 0);
    assert!(output.lock().display(br#"{"text":"<b>","json":null,"text/html":"<b>"}"#));
    assert!(!output.lock().display(b"{}"), "that is no result");
    let deep = format!(r#"{{"text":"deep","json":{}1{}}}"#, "[".repeat(999), "]".repeat(999));
    assert!(output.lock().display(deep.as_bytes()));
    for _ in 2..DISPLAY_MAX {
        assert!(output.lock().display(br#"{"text":"x"}"#));
    }
    assert!(!output.lock().display(br#"{"text":"x"}"#));
    assert!(output.end().truncated);
    assert!(matches!(receiver.recv(), Ok(Got::Piece(..))));
    match receiver.recv() {
        Ok(Got::Result(result)) => {
            assert_eq!(result.json, Some(serde_json::Value::Null));
            assert_eq!(result.mime["text/html"], "<b>");
        }
        _ => panic!("the result follows"),
    }
}
