//! Durable state in domain terms: sandboxes, records, stops, alarms, executions, outbox.
//!
//! The only authority on what exists, what ran, why it stopped and when an alarm is due.

mod model;

pub use model::{ListFilter, OutboxItem, SandboxRow, StopRecord};
