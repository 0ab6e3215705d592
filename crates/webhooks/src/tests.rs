//! Addresses, URLs and signatures.

use crate::address::is_public;
use crate::endpoint::{Endpoint, EndpointError, Secret};
use crate::signature;

fn endpoint(url: &str) -> Result<Endpoint, EndpointError> {
    Endpoint::new(None, url, Secret::new("0123456789abcdef"))
}

#[test]
fn nothing_but_the_open_internet_is_public() {
    let private = [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.127.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001::1",
        "2001:db8::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];
    for address in private {
        assert!(!is_public(address.parse().unwrap()), "{address}");
    }
    let public = [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.167.1.1",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
    ];
    for address in public {
        assert!(is_public(address.parse().unwrap()), "{address}");
    }
}

#[test]
fn urls_are_held_against_the_rule() {
    let good = endpoint("https://hooks.example/a?token=abc").unwrap();
    assert_eq!((good.host.as_str(), good.port), ("hooks.example", 443));
    assert_eq!(good.target, "/a?token=abc");
    // What stands behind the path may be a secret.
    assert_eq!(good.shown(), "https://hooks.example:443/a");
    assert_eq!(good.name, "https://hooks.example/a");
    let v6 = endpoint("http://[::1]:8080").unwrap();
    assert_eq!((v6.host.as_str(), v6.port, v6.target.as_str()), ("::1", 8080, "/"));
    assert_eq!(v6.shown(), "http://[::1]:8080/");
    for bad in [
        "",
        "hooks.example",
        "/a",
        "ftp://hooks.example/",
        "file:///etc/passwd",
        "https://",
        "https://ada:secret@hooks.example/",
        "https://ada@hooks.example/",
        "https://hooks.example:/",
        "https://hooks.example:99999/",
        "https://hooks example/",
    ] {
        assert!(matches!(endpoint(bad), Err(EndpointError::Url(_))), "{bad}");
    }
    let short = Endpoint::new(None, "https://a.example/", Secret::new("short"));
    assert_eq!(short.unwrap_err(), EndpointError::Secret);
    let long = Endpoint::new(Some("a\nb"), "https://a.example/", Secret::new("x".repeat(16)));
    assert_eq!(long.unwrap_err(), EndpointError::Name);
}

#[test]
fn a_signature_is_the_one_that_others_compute() {
    // printf '1700000000.{"id":1}' | openssl dgst -sha256 -hmac 0123456789abcdef
    let signed = signature(b"0123456789abcdef", "1700000000", b"{\"id\":1}");
    assert_eq!(signed, SIGNED);
    assert_ne!(signature(b"0123456789abcdeg", "1700000000", b"{\"id\":1}"), signed);
    assert_ne!(signature(b"0123456789abcdef", "1700000001", b"{\"id\":1}"), signed);
}

const SIGNED: &str = "sha256=4bcaced68dfea90a68df035b89cb7fb26692d899d32a1ccb1b0616cf48e4d1ed";

#[test]
fn a_secret_is_never_shown() {
    let endpoint = endpoint("https://a.example/").unwrap();
    assert!(!format!("{endpoint:?}").contains("0123456789abcdef"));
}
