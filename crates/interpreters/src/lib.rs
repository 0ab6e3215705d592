//! Interpreters as WebAssembly, their contexts and memory snapshots (S4).

mod config;
pub mod drivers;
mod guest;
mod limits;
mod stop;
pub mod wasi;

pub use config::{FIBER_STACK, GUEST_STACK, MEMORY_GUARD, MEMORY_RESERVATION, engine_config};
pub use guest::{Guest, Live};
pub use limits::Limits;
pub use stop::Stop;
