//! How far a guest's memory may grow.

use wasmtime::ResourceLimiter;

/// Limits of one guest. Growth beyond them fails in the guest, which may raise its own error.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest linear memory, bytes.
    pub memory_bytes: u64,
    /// Whether growth was refused since this was last cleared.
    pub refused: bool,
}

/// Most elements of a table: no engine grows its table.
const TABLE_MAX: usize = 1 << 20;

impl Limits {
    /// At most this much memory, bytes.
    pub fn new(memory_bytes: u64) -> Self {
        Limits { memory_bytes, refused: false }
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits = desired as u64 <= self.memory_bytes && maximum.is_none_or(|max| desired <= max);
        self.refused |= !fits;
        Ok(fits)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_MAX)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.refused = true;
        Ok(())
    }
}
