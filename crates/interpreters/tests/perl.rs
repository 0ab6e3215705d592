//! Perl in contexts: what code answers, what stays, what is met at a limit.

#[path = "perl/answers.rs"]
mod answers;
#[path = "perl/breaks.rs"]
mod breaks;
mod kit;
#[path = "perl/limits.rs"]
mod limits;
#[path = "perl/stays.rs"]
mod stays;

use kit::{Context, Engine};
use std::sync::{Arc, LazyLock};

/// Memory of a context, bytes: the default of the server.
const MEMORY: u64 = 96 << 20;

fn context() -> Context {
    static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| Engine::load("perl", MEMORY));
    Context::new(&ENGINE)
}
