//! Durable state in domain terms: sandboxes, records, stops, alarms, executions, code
//! contexts, outbox, tokens.
//!
//! The only authority on what exists, what ran, why it stopped and when an alarm is due, and the
//! only crate that opens the database. One SQLite file in WAL mode, one writer thread with group
//! commit ([`Store`]'s writes are answered after the fsync), a few readers.
//!
//! Reading order: `model` (what callers see), `store` (the handle), `queue` and `writer` (group
//! commit), `ops` (the SQL of each operation), `open` (lock, checks, migrations), `reserve`
//! (what keeps a full disk bearable).

mod copy;
mod cursor;
mod error;
mod lock;
mod migrations;
mod model;
mod open;
mod ops;
mod queue;
mod readers;
mod reserve;
mod store;
mod writer;

pub use copy::{Copy, Gone, Life, NeededBuild, UNFINISHED};
pub use error::{Error, Result};
pub use lock::Lock;
pub use model::{
    AccountRow, CheckpointRow, ContextRow, ContextState, EventFilter, FreshPack, OutboxItem,
    Placement, SandboxRow, SnapshotRow, StopRecord, TokenRow, WrittenPack,
};
pub use open::Options;
pub use store::Store;
