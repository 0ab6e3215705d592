//! Open mode: whoever reaches the server may act for any owner, and what keeps others out is that
//! it listens on loopback. A page in a browser of this machine reaches loopback too, so requests
//! that may come from one are refused.

use hyper::{HeaderMap, Uri, header};
use std::net::IpAddr;
use types::{Error, ErrorCode, Result};

/// Refuses what a web page may have sent. Errors: `FORBIDDEN`.
pub(super) fn check(headers: &HeaderMap, uri: &Uri) -> Result<()> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let loopback = host.is_some_and(|h| h.to_str().is_ok_and(is_loopback)) && second.is_none();
    if !loopback || uri.authority().is_some_and(|a| !is_loopback(a.as_str())) {
        let message = "without tokens this server answers only requests whose Host is a loopback \
                       address or localhost";
        return Err(Error::new(ErrorCode::Forbidden, message).with("header", "Host"));
    }
    if headers.get_all(header::ORIGIN).iter().any(|o| is_web_page(o.as_bytes())) {
        let message = "without tokens this server does not answer web pages";
        return Err(Error::new(ErrorCode::Forbidden, message).with("header", "Origin"));
    }
    // A picture or a link of a page has no origin; what a browser says of it no page can change.
    let site = headers.get("sec-fetch-site").map(header::HeaderValue::as_bytes);
    if matches!(site, Some(b"cross-site" | b"same-site")) {
        let message = "without tokens this server does not answer web pages";
        return Err(Error::new(ErrorCode::Forbidden, message).with("header", "Sec-Fetch-Site"));
    }
    Ok(())
}

/// Whether `host[:port]` is `localhost`, in 127.0.0.0/8, or `[::1]`.
pub(super) fn is_loopback(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, rest)) => {
            let loopback = v6.parse::<std::net::Ipv6Addr>().is_ok_and(|a| a.is_loopback());
            return loopback && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port));
        }
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    let v4 = || matches!(name.parse::<IpAddr>(), Ok(IpAddr::V4(a)) if a.is_loopback());
    port.is_none_or(is_port) && (name.eq_ignore_ascii_case("localhost") || v4())
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// Whether a browser sends this `Origin` for a page: from the web, or one that hides whence
/// (`null`). Programs that are their own origin (`app://…`) are none.
pub(super) fn is_web_page(origin: &[u8]) -> bool {
    let Ok(origin) = std::str::from_utf8(origin) else { return true };
    let origin = origin.trim().to_ascii_lowercase();
    matches!(origin.as_str(), "" | "null")
        || origin.starts_with("http:")
        || origin.starts_with("https:")
}
