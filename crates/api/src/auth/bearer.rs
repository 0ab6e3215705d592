//! The token that a request carries, in the one place where one may stand.

use hyper::{HeaderMap, header};
use types::{Error, ErrorCode, Result};

/// The token of `Authorization: Bearer …`. It is never repeated in an answer. Errors:
/// `UNAUTHENTICATED`.
pub(super) fn token(headers: &HeaderMap) -> Result<&str> {
    let refused = |message| Err(Error::new(ErrorCode::Unauthenticated, message));
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let Some(first) = all.next() else {
        return refused("this server asks for a token: send Authorization: Bearer TOKEN");
    };
    let malformed = "the header Authorization must stand once, as Bearer TOKEN";
    if all.next().is_some() {
        return refused(malformed);
    }
    let Ok(text) = first.to_str() else { return refused(malformed) };
    let Some((scheme, token)) = text.trim().split_once(' ') else { return refused(malformed) };
    let token = token.trim_start();
    let known = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b);
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || !token.bytes().all(known) {
        return refused(malformed);
    }
    Ok(token)
}
