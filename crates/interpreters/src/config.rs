//! The one configuration of the compiler and of the runtime.
//!
//! A compiled module runs only where the configuration is the one that it was compiled with, so
//! all that compiles, boots or runs a guest takes this.

use wasmtime::{Config, OptLevel};

/// Address space of a linear memory, bytes: all that a 32-bit guest can name, so that its
/// accesses need no check of bounds and a memory never moves.
pub const MEMORY_RESERVATION: u64 = 4 << 30;
/// Address space behind it that faults, bytes: no constant offset reaches over it.
pub const MEMORY_GUARD: u64 = 32 << 20;
/// Stack of a guest, bytes. Each language finds its own end of it before this one.
pub const GUEST_STACK: usize = 4 << 20;
/// Stack of a guest and of what it calls of ours, bytes.
pub const FIBER_STACK: usize = 5 << 20;

/// The configuration, but for where memory comes from.
///
/// A guest looks at the epoch at every function and loop: whoever runs one advances the epoch.
/// Memories are not initialised from images of the module's own: contexts start from bases.
pub fn engine_config() -> Config {
    let mut config = Config::new();
    config
        .cranelift_opt_level(OptLevel::Speed)
        .epoch_interruption(true)
        .wasm_exceptions(true)
        .memory_init_cow(false)
        .memory_reservation(MEMORY_RESERVATION)
        .memory_guard_size(MEMORY_GUARD)
        .memory_may_move(false)
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(FIBER_STACK)
        // What only debuggers of the host would read; a tenth of a module's size.
        .native_unwind_info(false)
        .generate_address_map(false)
        .wasm_backtrace_max_frames(None);
    config
}

#[cfg(test)]
mod tests;
