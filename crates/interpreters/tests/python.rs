//! Python in contexts: what code answers, what stays, what is met at a limit.

#[path = "python/answers.rs"]
mod answers;
#[path = "python/asynchronous.rs"]
mod asynchronous;
#[path = "python/breaks.rs"]
mod breaks;
#[path = "python/data.rs"]
mod data;
mod kit;
#[path = "python/limits.rs"]
mod limits;
#[path = "python/stays.rs"]
mod stays;

use kit::{Context, Engine};
use std::sync::{Arc, LazyLock};

/// Memory of a context, bytes: the default of the server.
const MEMORY: u64 = 256 << 20;

fn context() -> Context {
    static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| Engine::load("python", MEMORY));
    Context::new(&ENGINE)
}

fn data_context() -> Context {
    static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| Engine::load("python-data", MEMORY));
    Context::new(&ENGINE)
}
