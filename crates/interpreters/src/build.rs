//! A compiled interpreter and its base: all that instances of it share.

use crate::drivers::Driver;
use crate::memory::{Image, Memories};
use crate::pack::BuildId;
use crate::pages::NonZero;
use crate::wasi;
use crate::{BaseMeta, Guest, InstanceError, engine_config};
use std::fs::File;
use std::sync::Arc;
use wasmtime::{Engine, ExternType, InstancePre, Linker, Module, Mutability};

/// The one engine of a process that runs guests, or compiles or boots them.
///
/// # Errors
/// Where the machine cannot run what the configuration asks for.
pub fn new_engine() -> wasmtime::Result<Engine> {
    Engine::new(engine_config().with_host_memory(Arc::new(Memories)))
}

/// A module with all that it imports, ready for instances.
pub(crate) struct Linked {
    pub pre: InstancePre<Guest>,
    pub driver: Arc<dyn Driver>,
    /// Least size of its memory, bytes.
    pub least: usize,
    /// Exported globals that code can change; they must be at rest between executions.
    pub globals: Vec<String>,
    /// Exported tables.
    pub tables: Vec<String>,
}

impl Linked {
    pub(crate) fn new(module: &Module, driver: Arc<dyn Driver>) -> Result<Self, InstanceError> {
        let mut linker = Linker::new(module.engine());
        let load = |error: wasmtime::Error| InstanceError::Load(format!("{error:#}"));
        wasi::add_to_linker(&mut linker).map_err(load)?;
        driver.link(&mut linker).map_err(load)?;
        wasi::define_unknown(&mut linker, module);
        let pre = linker.instantiate_pre(module).map_err(load)?;
        let (mut globals, mut tables) = (Vec::new(), Vec::new());
        let least = match module.get_export("memory") {
            Some(ExternType::Memory(ty)) => usize::try_from(ty.minimum() << 16).unwrap_or(0),
            _ => return Err(InstanceError::Load("the module exports no memory".into())),
        };
        for export in module.exports() {
            match export.ty() {
                ExternType::Global(ty) if ty.mutability() == Mutability::Var => {
                    globals.push(export.name().to_owned());
                }
                ExternType::Table(_) => tables.push(export.name().to_owned()),
                _ => {}
            }
        }
        Ok(Linked { pre, driver, least, globals, tables })
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.pre.module().engine()
    }
}

/// A compiled interpreter and its base image: all that its instances share.
pub struct Build {
    pub(crate) linked: Linked,
    pub(crate) image: Arc<Image>,
    pub(crate) meta: BaseMeta,
    pub(crate) id: BuildId,
    pub(crate) non_zero: NonZero,
}

impl Build {
    /// From a module without data segments, compiled by [`new_engine`]'s configuration, and the
    /// base that the whole module gave.
    ///
    /// # Errors
    /// [`InstanceError::Load`] where the parts do not belong together or import what nobody has.
    pub fn new(
        module: &Module,
        image: File,
        meta: BaseMeta,
        driver: Arc<dyn Driver>,
    ) -> Result<Arc<Self>, InstanceError> {
        let linked = Linked::new(module, driver)?;
        let image = Image::open(image).map_err(|e| InstanceError::Load(e.to_string()))?;
        if image.bytes().len() as u64 != meta.memory_bytes {
            return Err(InstanceError::Load(
                "the base image is not as large as its description".into(),
            ));
        }
        let id = BuildId { wasm: unhex(&meta.wasm)?, base: unhex(&meta.base)? };
        let non_zero = NonZero::from_hex(&meta.non_zero).ok_or_else(|| {
            InstanceError::Load("the description of the base image is damaged".into())
        })?;
        Ok(Arc::new(Build { linked, image, meta, id, non_zero }))
    }

    /// What is known of its base.
    pub fn meta(&self) -> &BaseMeta {
        &self.meta
    }
}

/// 32 bytes of hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Result<[u8; 32], InstanceError> {
    let bad = || InstanceError::Load(format!("{text:?} is not a hash"));
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return Err(bad());
    }
    for (slot, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| bad())?;
        *slot = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
    }
    Ok(bytes)
}

/// Hexadecimal digits of bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
