//! What the host keeps for one running module, and how a driver reaches into it.

use crate::Stop;
use crate::limits::Limits;
use crate::wasi::Wasi;
use std::any::Any;
use wasmtime::{AsContextMut, Caller, Instance, Memory, Store, TypedFunc, WasmParams, WasmResults};

/// The host's side of one running module: the data of its store, which every import reaches by
/// `Caller::data_mut`.
pub struct Guest {
    /// Its files, clocks, output, arguments and environment.
    pub wasi: Wasi,
    /// How far its memory may grow.
    pub limits: Limits,
    pub(crate) memory: Option<Memory>,
    pub(crate) ext: Box<dyn Any + Send>,
}

impl Guest {
    /// The state that the driver made with [`crate::drivers::Driver::state`]; `None` if it is of
    /// another type.
    pub fn ext<T: 'static>(&mut self) -> Option<&mut T> {
        self.ext.downcast_mut()
    }

    /// Takes a displayed result: the JSON of a `types::RichResult`. `false` if it is none, or if
    /// the guest has displayed more than is kept; the guest may go on either way.
    pub fn emit(&mut self, json: &[u8]) -> bool {
        self.wasi.output.lock().display(json)
    }

    /// The guest's memory and the host's state, both at once, in an import.
    ///
    /// # Errors
    /// Where the module exports no memory named `memory`.
    pub fn split<'a>(
        caller: &'a mut Caller<'_, Guest>,
    ) -> wasmtime::Result<(&'a mut [u8], &'a mut Guest)> {
        let memory = match caller.data().memory {
            Some(memory) => memory,
            None => caller
                .get_export("memory")
                .and_then(wasmtime::Extern::into_memory)
                .ok_or_else(|| Stop::Driver("the module exports no memory".into()))?,
        };
        Ok(memory.data_and_store_mut(caller))
    }
}

/// A module that runs, as its driver sees it.
pub struct Live {
    /// The store; its data is the host's side.
    pub store: Store<Guest>,
    /// The instance.
    pub instance: Instance,
    /// Its only memory.
    pub memory: Memory,
}

impl Live {
    /// An exported function.
    ///
    /// # Errors
    /// [`Stop::Driver`] if there is none of that name and type.
    pub fn func<P: WasmParams, R: WasmResults>(
        &mut self,
        name: &str,
    ) -> Result<TypedFunc<P, R>, Stop> {
        self.instance
            .get_typed_func(&mut self.store, name)
            .map_err(|e| Stop::Driver(format!("export {name}: {e}")))
    }

    /// Calls an exported function.
    ///
    /// # Errors
    /// As [`Live::func`], and whatever ended the call.
    pub async fn call<P: WasmParams + Sync, R: WasmResults + Sync>(
        &mut self,
        name: &str,
        params: P,
    ) -> Result<R, Stop> {
        let func = self.func::<P, R>(name)?;
        Ok(func.call_async(self.store.as_context_mut(), params).await?)
    }

    /// Copies bytes out of the guest's memory.
    ///
    /// # Errors
    /// [`Stop::Driver`] if they do not all lie in it.
    pub fn read(&self, address: u32, len: u32) -> Result<Vec<u8>, Stop> {
        let data = self.memory.data(&self.store);
        let start = address as usize;
        start
            .checked_add(len as usize)
            .and_then(|end| data.get(start..end))
            .map(<[u8]>::to_vec)
            .ok_or_else(|| Stop::Driver(format!("{len} bytes at {address:#x} are out of memory")))
    }

    /// Copies bytes into the guest's memory.
    ///
    /// # Errors
    /// [`Stop::Driver`] if they do not all fit in it.
    pub fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), Stop> {
        let start = address as usize;
        self.memory
            .data_mut(&mut self.store)
            .get_mut(start..)
            .and_then(|rest| rest.get_mut(..bytes.len()))
            .map(|to| to.copy_from_slice(bytes))
            .ok_or_else(|| {
                Stop::Driver(format!("{} bytes at {address:#x} are out of memory", bytes.len()))
            })
    }
}
