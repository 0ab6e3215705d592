//! What the end-to-end tests stand on: a real server with its own data directory, asked over
//! real HTTP, killed and started again at will.

mod answer;
mod host;
mod server;

pub use answer::Answer;
pub use host::{Found, eventually, processes, read_instance};
pub use server::{Builder, Server, binary};
