//! The sandbox: its state machine, its use-cases, its idle rule.
//!
//! Read `machine.rs` first: all that a sandbox can be, as a pure function. `object.rs` drives it,
//! `service.rs` is what callers see.

mod account;
pub mod backup;
mod busy;
mod code;
mod errors;
mod events;
mod exec;
mod files;
mod history;
mod info;
mod instances;
mod lists;
mod machine;
mod memory;
mod meters;
mod object;
mod quotas;
mod reconcile;
mod service;
mod stops;
mod sweep;
mod text;
mod turns;
mod upkeep;
mod world;

pub use busy::Busy;
pub use code::{Binding, CodeOptions, CodeStream};
pub use events::Followed;
pub use exec::{Collected, ExecStream};
pub use files::{Changes, Download, Files, Listed, Packed, Unpacking, Uploading};
pub use lists::Instances;
pub use memory::MemoryRules;
pub use meters::Gauges;
pub use service::{Options, Sandboxes};
pub use stops::OnStop;
pub use store::EventFilter;
pub use upkeep::{Retention, Upkeep, WAIT_MAX_MS};
