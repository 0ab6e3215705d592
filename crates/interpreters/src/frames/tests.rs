use super::{Frame, Reader, Sender};
use std::io::{Read, Write};
use std::sync::Arc;
use tokio::net::UnixStream;

fn pair() -> (Arc<UnixStream>, Arc<UnixStream>) {
    let (one, other) = UnixStream::pair().expect("a pair");
    (Arc::new(one), Arc::new(other))
}

#[tokio::test]
async fn frames_come_as_they_went() {
    let (one, other) = pair();
    let sender = Sender::new(one);
    let large: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let (read, mut write) = std::io::pipe().expect("a pipe");
    sender.send(Frame::new(&"first", Vec::new()).expect("a frame"));
    sender.send(Frame::new(&"second", large.clone()).expect("a frame").with(vec![read.into()]));
    sender.send(Frame::new(&"third", b"x".to_vec()).expect("a frame"));
    drop(sender);
    let mut reader = Reader::new(other);
    let mut next = async || reader.next::<String>().await.expect("a frame");
    assert_eq!(next().await, Some(("first".to_owned(), Vec::new())));
    assert_eq!(next().await, Some(("second".to_owned(), large)));
    assert_eq!(next().await, Some(("third".to_owned(), b"x".to_vec())));
    let fds = reader.take_fds(1).expect("one came");
    assert!(reader.take_fds(1).is_err(), "and no other");
    assert_eq!(reader.next::<String>().await.expect("the end"), None);
    write.write_all(b"through").expect("write");
    drop(write);
    let mut text = String::new();
    for fd in fds {
        std::fs::File::from(fd).read_to_string(&mut text).expect("read");
    }
    assert_eq!(text, "through");
}

#[tokio::test]
async fn what_is_no_frame_is_refused() {
    let cut: &[u8] = &[5, 0, 0, 0, 0, 0, 0, 0, b'"'];
    let long: &[u8] = &[0xff; 8];
    let no_json: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0, b'{'];
    for bytes in [cut, long, no_json] {
        let (one, other) = pair();
        let mut one = Arc::into_inner(one).expect("alone").into_std().expect("std");
        one.set_nonblocking(false).expect("blocking");
        one.write_all(bytes).expect("write");
        drop(one);
        assert!(Reader::new(other).next::<String>().await.is_err(), "{bytes:?}");
    }
}
