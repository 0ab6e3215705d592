//! The sandbox: its state machine, its use-cases, its idle rule.
//!
//! Read `machine.rs` first: all that a sandbox can be, as a pure function. `object.rs` drives it,
//! `service.rs` is what callers see.

mod account;
mod busy;
mod code;
mod errors;
mod exec;
mod files;
mod history;
mod info;
mod lists;
mod machine;
mod object;
mod reconcile;
mod service;
mod stops;
mod text;
mod world;

pub use busy::Busy;
pub use code::{Binding, CodeOptions, CodeStream};
pub use exec::{Collected, ExecStream};
pub use files::{Changes, Download, Files, Listed, Packed, Unpacking, Uploading};
pub use lists::Instances;
pub use service::{Options, Sandboxes};
pub use stops::OnStop;
