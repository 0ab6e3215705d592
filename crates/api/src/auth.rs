//! Who calls, and for whom.
//!
//! So far the server knows open mode alone: whoever reaches it may act for any owner, and what
//! keeps others out is that it listens on loopback. A page in a browser of this machine reaches
//! loopback too, so requests that may come from one are refused.

use crate::query::Query;
use crate::routes::Access;
use hyper::{HeaderMap, Uri, header};
use std::net::IpAddr;
use types::{Error, ErrorCode, Owner, Result};

/// By which door a request came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Listening {
    /// TCP, in open mode.
    #[default]
    Open,
    /// The administrator's socket; its peer was checked when it connected.
    Admin,
}

/// A caller, once known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Anybody on this machine: acts for any owner.
    Open,
    /// The administrator: acts for any owner.
    Admin,
}

/// Names the owner where the path does not.
const OWNER: &str = "sandkeep-owner";

/// Finds out who calls. Errors: `FORBIDDEN`.
pub(crate) fn authenticate(door: Listening, headers: &HeaderMap, uri: &Uri) -> Result<Identity> {
    if door == Listening::Admin {
        return Ok(Identity::Admin);
    }
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
    Ok(Identity::Open)
}

/// Whether `identity` may call routes of `access`; for which owner is looked at apart. Errors:
/// `FORBIDDEN`.
pub(crate) fn check(identity: Identity, access: Access) -> Result<()> {
    match (identity, access) {
        (Identity::Open | Identity::Admin, _) => Ok(()),
    }
}

/// The owner for whom `identity` acts: of the path, else of the header or the query, else
/// `local`. Errors: `VALIDATION_FAILED` of `owner`.
pub(crate) fn acting_for(
    identity: Identity,
    of_path: Option<Owner>,
    headers: &HeaderMap,
    query: &Query,
) -> Result<Owner> {
    match identity {
        Identity::Open | Identity::Admin => {}
    }
    if let Some(owner) = of_path {
        return Ok(owner);
    }
    let mut named: Option<&str> = query.get("owner");
    for value in headers.get_all(OWNER) {
        let value = value.to_str().map_err(|_| {
            Error::invalid("owner", "the header Sandkeep-Owner has characters beyond ASCII")
        })?;
        if named.is_some_and(|other| other != value) {
            return Err(Error::invalid("owner", "the request names two owners"));
        }
        named = Some(value);
    }
    match named {
        None => Ok(Owner::local()),
        Some(name) => name.parse().map_err(|e| crate::path::refused("owner", &e)),
    }
}

/// Whether `host[:port]` is `localhost`, in 127.0.0.0/8, or `[::1]`.
fn is_loopback(host: &str) -> bool {
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
fn is_web_page(origin: &[u8]) -> bool {
    let Ok(origin) = std::str::from_utf8(origin) else { return true };
    let origin = origin.trim().to_ascii_lowercase();
    matches!(origin.as_str(), "" | "null")
        || origin.starts_with("http:")
        || origin.starts_with("https:")
}

#[cfg(test)]
mod tests;
