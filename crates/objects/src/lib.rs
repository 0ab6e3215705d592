//! Durable objects: id → the one live copy, single writer, alarm, eviction.
//!
//! A message to an id finds the live copy or brings it to life; the copy handles one message at
//! a time, so that all its state changes have one order. Long work does not happen inside: it
//! takes a [`Hold`] and comes back as a message. A copy without work leaves memory; its state
//! is in the store. Knows nothing of sandboxes.

mod alarms;
mod clock;
mod hold;
mod live;

pub use alarms::{AlarmHandle, Gap};
pub use clock::Clock;
pub use hold::{Hold, Holds};
pub use live::{AlarmFailed, Object, Objects, Options, WeakObjects};
