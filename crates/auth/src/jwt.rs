//! Tokens of an outside issuer (JWT): an application's own users, as owners.
//!
//! The issuer's public keys come from a file or a URL (JWKS) and are kept fresh. A token is taken
//! where one of them signed it with RS256, ES256 or EdDSA, it is for us, and it is in time; the
//! owner is what one of its claims says.

mod jws;
mod keys;
mod source;

pub use source::{Source, SourceError};

use crate::errors::unauthenticated;
use crate::secret::Digest;
use jws::{Bad, Rules, Token};
use keys::{KeySet, Keys};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use types::{Error, Owner, Result};

/// Longest token, bytes.
const LONGEST: usize = 16 << 10;
/// How far the issuer's clock may be from ours, s.
const LEEWAY_S: u32 = 30;
/// Most tokens remembered; then all are forgotten and checked anew.
const TOKENS: usize = 16_384;

/// Whom to trust.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the issuer's keys are.
    pub keys: Source,
    /// What `iss` must be.
    pub issuer: String,
    /// One of which `aud` must name.
    pub audience: Vec<String>,
    /// The claim that says who the owner is.
    pub owner_claim: String,
}

/// The issuer that is trusted.
pub(crate) struct Issuer {
    keys: Keys,
    rules: Rules,
    owner_claim: String,
    memory: Mutex<Memory>,
}

/// Tokens that were checked.
#[derive(Default)]
struct Memory {
    /// Of which keys.
    version: u64,
    /// The owner, and when the token ends, ms since the epoch.
    known: HashMap<Digest, (Owner, i64)>,
}

impl Issuer {
    /// Trusts an issuer. Its keys are fetched; where a URL has none now, later. Errors: the file
    /// with the keys cannot be used.
    pub(crate) async fn new(options: Options) -> std::result::Result<Self, SourceError> {
        let Options { keys, issuer, audience, owner_claim } = options;
        let rules = Rules { issuer, audience, leeway_s: LEEWAY_S };
        let keys = Keys::open(keys).await?;
        Ok(Self { keys, rules, owner_claim, memory: Mutex::default() })
    }

    /// Whether it looks like one of an issuer's: three parts, of which the first is a header.
    pub(crate) fn is_token(text: &str) -> bool {
        text.starts_with("ey") && text.bytes().filter(|b| *b == b'.').count() == 2
    }

    /// The owner that a token names. Errors: `UNAUTHENTICATED`, `UNAVAILABLE`.
    pub(crate) async fn owner(&self, token: &str, digest: &Digest, now: i64) -> Result<Owner> {
        if token.len() > LONGEST {
            let message = format!("the token is longer than {LONGEST} bytes");
            return Err(unauthenticated(message));
        }
        let keys = self.keys.now();
        if let Some(owner) = self.remembered(&keys, digest, now) {
            return Ok(owner);
        }
        let parsed = Token::parse(token).map_err(refused)?;
        let (kid, algorithm) = (parsed.kid.as_deref(), parsed.algorithm);
        let keys = if keys.has(kid, algorithm) { keys } else { self.keys.renewed(keys).await? };
        let mut fitting = keys.find(kid, algorithm).peekable();
        if fitting.peek().is_none() {
            return Err(unauthenticated("no key of the issuer fits the token"));
        }
        if !fitting.any(|key| parsed.signed_by(key)) {
            return Err(refused(Bad::Signature));
        }
        let claims = parsed.claims(&self.rules, now as f64 / 1000.0).map_err(refused)?;
        let owner = self.claimed(&claims)?;
        self.remember(&keys, digest, &owner, &claims);
        Ok(owner)
    }

    fn claimed(&self, claims: &Map<String, Value>) -> Result<Owner> {
        let claim = &self.owner_claim;
        let Some(name) = claims.get(claim).and_then(Value::as_str) else {
            let message = format!("the token has no text in the claim {claim}, the owner");
            return Err(unauthenticated(message));
        };
        name.parse().map_err(|error| {
            unauthenticated(format!("the token's claim {claim} is no owner: {error}"))
                .with("claim", claim.clone())
        })
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remembered(&self, keys: &KeySet, digest: &Digest, now: i64) -> Option<Owner> {
        let mut memory = self.memory();
        if memory.version != keys.version() {
            *memory = Memory { version: keys.version(), known: HashMap::new() };
        }
        let (owner, end) = memory.known.get(digest)?;
        if now >= *end {
            memory.known.remove(digest);
            return None;
        }
        Some(owner.clone())
    }

    fn remember(&self, keys: &KeySet, digest: &Digest, owner: &Owner, claims: &Map<String, Value>) {
        let end = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
        let mut memory = self.memory();
        if memory.version != keys.version() {
            return;
        }
        if memory.known.len() >= TOKENS {
            memory.known.clear();
        }
        // Saturates where it is absurd; the check itself rounds as well.
        memory.known.insert(*digest, (owner.clone(), (end * 1000.0) as i64));
    }
}

/// What is wrong with a token. Nothing of the token itself is repeated.
fn refused(bad: Bad) -> Error {
    unauthenticated(format!("the token is not valid: {bad}"))
}

#[cfg(test)]
mod tests;
