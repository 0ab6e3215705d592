//! The calls, by the names under which modules import them.

use crate::Guest;
use wasmtime::{ExternType, Linker, Module, Val};

/// The module that the calls are imported from.
const WASI: &str = "wasi_snapshot_preview1";
/// The errno of a call that is not there.
const NOSYS: i32 = 52;

/// Adds all calls to a linker.
///
/// # Errors
/// Where the linker has one of them.
pub fn add_to_linker(_linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    Ok(())
}

/// Adds what `module` imports from WASI and nobody has defined: functions that answer that they
/// are not there. To be called last. Imports from elsewhere stay undefined, so that instantiating
/// names them.
pub fn define_unknown(linker: &mut Linker<Guest>, module: &Module) {
    for import in module.imports().filter(|import| import.module() == WASI) {
        if let ExternType::Func(ty) = import.ty() {
            // It fails where the name is defined, which is what we want.
            let _ = linker.func_new(WASI, import.name(), ty, |_, _, results| {
                results.iter_mut().for_each(|result| *result = Val::I32(NOSYS));
                Ok(())
            });
        }
    }
}
