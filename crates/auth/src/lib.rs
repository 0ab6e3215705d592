//! Who calls: the tokens of a server, and of an issuer that it trusts (section 10 of the contract).
//!
//! A token is 32 random bytes, told once; the store has its SHA-256. [`Keyring`] makes, lists,
//! revokes and recognises them. It is the only one that does so on a data directory at a time,
//! because it stands on an open store: what it remembers of tokens is therefore true, and a
//! revocation counts from the moment when it is answered.

mod errors;
pub mod jwt;
mod keyring;
mod secret;

pub use keyring::{Keyring, OpenError, Options};
