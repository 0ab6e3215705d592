//! Ruby in contexts: what code answers, what stays, what is met at a limit.

#[path = "ruby/answers.rs"]
mod answers;
#[path = "ruby/breaks.rs"]
mod breaks;
mod kit;
#[path = "ruby/limits.rs"]
mod limits;
#[path = "ruby/stays.rs"]
mod stays;

use kit::{Context, Engine};
use std::sync::{Arc, LazyLock};

/// Memory of a context, bytes: the default of the server.
const MEMORY: u64 = 96 << 20;

fn context() -> Context {
    static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| Engine::load("ruby", MEMORY));
    Context::new(&ENGINE)
}
