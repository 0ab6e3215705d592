//! Interpreters as WebAssembly, their contexts and memory snapshots (S4).

mod config;
pub mod drivers;
pub mod engines;
mod guest;
mod limits;
mod memory;
pub mod pack;
pub mod pages;
mod snapshot;
mod stop;
pub mod wasi;

pub use config::{FIBER_STACK, GUEST_STACK, MEMORY_GUARD, MEMORY_RESERVATION, engine_config};
pub use guest::{Guest, Live};
pub use limits::Limits;
pub use memory::Image;
pub use snapshot::{PackRef, Snapshot};
pub use stop::Stop;
