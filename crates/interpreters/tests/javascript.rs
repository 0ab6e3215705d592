//! JavaScript in contexts: what code answers, what stays, what is met at a limit.

#[path = "javascript/answers.rs"]
mod answers;
#[path = "javascript/breaks.rs"]
mod breaks;
#[path = "javascript/files.rs"]
mod files;
#[path = "javascript/intl.rs"]
mod intl;
mod kit;
#[path = "javascript/limits.rs"]
mod limits;
#[path = "javascript/stays.rs"]
mod stays;

use kit::{Context, Engine};
use std::sync::{Arc, LazyLock};

/// Memory of a context, bytes: the default of the server.
const MEMORY: u64 = 64 << 20;

fn context() -> Context {
    static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| Engine::load("javascript", MEMORY));
    Context::new(&ENGINE)
}
