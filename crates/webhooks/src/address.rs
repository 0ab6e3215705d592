//! Which addresses events may go to. Whoever writes a webhook must not reach through it what only
//! this machine, or its network, can.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the address is one of the open internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = match (a, b, c) {
        // This network, loopback, private, and the two of shared and link-local addresses: in the
        // last the metadata services of clouds listen.
        (0 | 10 | 127, ..) | (172, 16..=31, _) | (192, 168, _) => true,
        (100, 64..=127, _) | (169, 254, _) => true,
        // Protocols, documentation, the old relay of 6to4, benchmarks.
        (192, 0, 0 | 2) | (198, 51, 100) | (203, 0, 113) => true,
        (192, 88, 99) | (198, 18..=19, _) => true,
        // Multicast, reserved, broadcast.
        (224.., ..) => true,
        _ => false,
    };
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        // What is an IPv4 address in another form counts as that one: mapped, by NAT64, by 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low] => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        // Teredo and others of the protocols, ORCHIDs, documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        // All that is global begins so; loopback, unique local and link-local do not.
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}
