//! The text of a token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// How every token begins, so that those who look for leaked secrets know one.
pub(crate) const PREFIX: &str = "sandkeep_";
/// How an id begins.
const ID_PREFIX: &str = "tok_";
/// Characters of 32 bytes in base64url.
const LENGTH: usize = 43;

/// SHA-256 of a token's text.
pub(crate) type Digest = [u8; 32];

/// The digest of what was sent.
pub(crate) fn digest(text: &str) -> Digest {
    Sha256::digest(text.as_bytes()).into()
}

/// Whether it looks like one of ours. What does not is not looked up.
pub(crate) fn is_token(text: &str) -> bool {
    let tail = text.strip_prefix(PREFIX);
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    tail.is_some_and(|tail| tail.len() == LENGTH && tail.bytes().all(known))
}

/// A new token and its id. Errors: the kernel gives no random bytes.
pub(crate) fn generate() -> std::io::Result<(String, String)> {
    let (secret, id) = (random::<32>()?, random::<8>()?);
    let id: String = id.iter().map(|b| format!("{b:02x}")).collect();
    Ok((format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret)), format!("{ID_PREFIX}{id}")))
}

fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}
