use super::{Ids, resolve};

const PASSWD: &[u8] = b"root:x:0:0::/root:/bin/sh\nada:x:1000:100:Ada:/home/ada:/bin/sh\nbad\n\
    far:x:70000:1::/:/x\n";
const GROUP: &[u8] = b"wheel:x:10:ada,bob\nusers:x:100:\nvideo:x:44:bob\nodd:x:9:bob,ada\n";

fn ids(wanted: &str) -> Option<(u32, u32, Vec<u32>)> {
    let found = resolve(wanted, || PASSWD.to_vec(), || GROUP.to_vec());
    found.map(|Ids { uid, gid, groups }| (uid, gid, groups))
}

#[test]
fn names_and_numbers() {
    assert_eq!(ids("ada"), Some((1000, 100, vec![10, 9])));
    assert_eq!(ids("root"), Some((0, 0, vec![])));
    assert_eq!(ids("1000"), Some((1000, 100, vec![])));
    assert_eq!(ids("33"), Some((33, 0, vec![])));
    assert_eq!(ids("33:44"), Some((33, 44, vec![])));
    assert_eq!(ids("ada:44"), Some((1000, 44, vec![])));
}

#[test]
fn what_is_no_user() {
    for wanted in ["", ":", "bob", "70000", "far", "1:x", "1:70000", "-1", "+1", "bad", "a\nb"] {
        assert_eq!(ids(wanted), None, "{wanted:?}");
    }
}
