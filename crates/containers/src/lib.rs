//! Linux instances: images, create, exec, monitor, destroy, limits.
//!
//! One trait, [`Engine`], with capability flags and two back ends: `native` (the default, over
//! the spawner) and `oci` (a runtime such as runc: the oracle and the harder isolation).
//! Knows nothing of sandboxes' records or of durable objects.

mod cgroup;
mod dirs;
mod engine;
mod fail;
mod flatcopy;
mod ids;
mod images;
mod layout;
mod leaks;
mod measure;
mod memory;
mod native;
pub mod oci;
mod rest;
mod trash;

pub use engine::{
    Adopted, Capabilities, Command, CommandEnd, CommandEvent, CommandInfo, CommandOutcome, Ending,
    Engine, Error, ExecError, IdRange, Identity, Instance, InstanceSpec, Main, RunningCommand,
    Usage,
};
pub use images::{HOST, ImageError, ImageInfo, Images, NAME_MAX, Progress};
pub use layout::check_data_dir;
pub use leaks::{Leak, leaks, probe_limits, remove_cgroup_parents};
pub use memory::{Memory, memory, memory_pressure};
pub use native::{ID_BASE_START, NativeEngine, NativeOptions};
pub use oci::{OciEngine, OciOptions};
pub use rest::AtRest;
pub use spawner::boot_id;
