//! Helper, supervisor and init: what clones, mounts, enters, executes and waits. No policy.
//!
//! The one crate that may be unsafe; each such block says why it must be and why it is sound.

pub mod protocol;
