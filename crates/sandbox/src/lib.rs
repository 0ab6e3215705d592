//! The sandbox: its state machine, its use-cases, its idle rule.

mod service;

pub use service::{ExecStream, Sandboxes};
