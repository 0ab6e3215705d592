//! Starting an interpreter for the first and only time, to keep its memory.

use crate::build::{Linked, hex};
use crate::drivers::Driver;
use crate::instance::{AtRest, instantiate};
use crate::memory::HUGE;
use crate::pages::NonZero;
use crate::runtime::Runtime;
use crate::wasi::{Places, Sink, Wasi};
use crate::{BaseMeta, InstanceError, Live};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use wasmtime::Module;

/// An interpreter that has started, and whose memory is not kept yet.
pub struct Booted {
    live: Live,
    rest: AtRest,
    handles: Value,
}

impl Booted {
    /// Starts an interpreter from its whole module, data segments and all, compiled by
    /// [`crate::new_engine`]'s configuration. Dropping the future stops it.
    ///
    /// # Errors
    /// [`InstanceError::Load`], [`InstanceError::Start`]; [`InstanceError::Boot`] where it was stopped;
    /// [`InstanceError::NotAtRest`] where it left something that is not memory.
    pub async fn start(
        module: &Module,
        driver: Arc<dyn Driver>,
        runtime: &Runtime,
        places: Places,
        memory_bytes: u64,
        sink: Box<dyn Sink>,
    ) -> Result<Self, InstanceError> {
        let linked = Linked::new(module, driver)?;
        let wasi = Wasi::reproducible(places);
        let output = wasi.output.clone();
        output.begin(sink, 1 << 20);
        let mut live = instantiate(&linked, None, wasi, memory_bytes).await?;
        let rest = AtRest::of(&linked, &mut live);
        let handles = {
            let _ticking = runtime.ticking();
            linked.driver.boot(&mut live).await
        };
        output.end();
        let handles = handles.map_err(InstanceError::Boot)?;
        rest.check(&linked, &mut live)?;
        Ok(Booted { live, rest, handles })
    }

    /// Writes its memory to an empty file, with holes where large pieces of it are zero, and describes it. `wasm`
    /// is the SHA-256 of the module as its package holds it, hex, `stack` the size of the stack that
    /// its memory begins with, bytes. The file is not synced.
    ///
    /// # Errors
    /// [`InstanceError::Write`]; [`InstanceError::NotAtRest`] where no global is at the end of a stack of
    /// this size.
    pub fn write(&self, file: &File, wasm: &str, stack: u64) -> Result<BaseMeta, InstanceError> {
        if stack != 0 && !self.rest.has(stack) {
            return Err(InstanceError::NotAtRest(format!("no stack of {stack} bytes is empty")));
        }
        let memory = self.live.memory.data(&self.live.store);
        file.set_len(memory.len() as u64)?;
        // In large pieces: so large are then those that the kernel keeps and maps it in.
        for (index, piece) in memory.chunks(HUGE).enumerate() {
            if piece.iter().any(|byte| *byte != 0) {
                file.write_all_at(piece, (index * HUGE) as u64)?;
            }
        }
        let wasi = &self.live.store.data().wasi;
        Ok(BaseMeta {
            wasm: wasm.to_owned(),
            base: hex(blake3::hash(memory).as_bytes()),
            memory_bytes: memory.len() as u64,
            stack,
            non_zero: NonZero::of(memory).to_hex(),
            fds: wasi.save(),
            clock_ns: wasi.clocks.monotonic(),
            handles: self.handles.clone(),
        })
    }
}
