//! The engine over an OCI runtime: the oracle of the native one, and the way to runtimes that
//! isolate harder.
//!
//! The runtime is given a configuration of our own and called as a program. What it cannot do
//! is told by the flags: a killed command's tree is not reached (only the command is),
//! instances end with the server, and a code above 128 reads as a signal.

mod config;
mod engine;
mod instance;
mod runtime;

pub use config::{OciSpec, config, process};
pub use engine::{OciEngine, OciOptions};
