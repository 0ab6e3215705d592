//! Interpreters as WebAssembly, their contexts and memory snapshots (S4).

mod boot;
mod bounds;
mod build;
mod config;
pub mod drivers;
pub mod engines;
mod error;
mod frames;
mod guest;
mod instance;
mod limits;
mod memory;
pub mod pack;
pub mod pages;
mod protocol;
mod runtime;
mod service;
mod snapshot;
mod stop;
pub mod wasi;
mod worker;
mod zygote;

pub use boot::Booted;
pub use build::{Build, new_engine};
pub use config::{FIBER_STACK, GUEST_STACK, MEMORY_GUARD, MEMORY_RESERVATION, engine_config};
pub use error::InstanceError;
pub use guest::{Guest, Live};
pub use instance::{Execution, Instance, Outcome, Packs};
pub use limits::Limits;
pub use memory::{Image, load_module};
pub use runtime::Runtime;
pub use service::{
    Done, Error, Event, Interpreters, Job, NewPack, Options, PackDir, PackPlace, Saved, Worker,
    WorkerSpec,
};
pub use snapshot::{BaseMeta, NewSnapshot, PackRef, Snapshot};
pub use stop::Stop;
pub use zygote::run_if_asked;
