//! From a module to machine code.

use super::{Error, strip};
use crate::engine_config;
use std::hash::{Hash as _, Hasher};
use wasmtime::Engine;

/// Which compiled module serves a module here: a hash over what was compiled, how, and for what
/// processor, hex.
///
/// # Errors
/// [`Error::Compile`] where this processor is not supported.
pub fn module_key(wasm_sha256: &str, exports: &[&str]) -> Result<String, Error> {
    let engine = engine("the module")?;
    let mut hasher = Wide(blake3::Hasher::new());
    hasher.write(wasm_sha256.as_bytes());
    strip::VERSION.hash(&mut hasher);
    exports.hash(&mut hasher);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    Ok(hasher.0.finalize().to_hex()[..32].to_owned())
}

/// Compiles a module. It takes all processors, and for a large one a minute and 2 GiB.
///
/// # Errors
/// [`Error::Compile`]
pub(crate) fn compile(name: &str, wasm: &[u8]) -> Result<Vec<u8>, Error> {
    engine(name)?
        .precompile_module(wasm)
        .map_err(|e| Error::Compile { engine: name.to_owned(), what: format!("{e:#}") })
}

fn engine(name: &str) -> Result<Engine, Error> {
    Engine::new(&engine_config())
        .map_err(|e| Error::Compile { engine: name.to_owned(), what: format!("{e:#}") })
}

/// A hasher whose result is wide, and the same in every run.
struct Wide(blake3::Hasher);

impl Hasher for Wide {
    fn finish(&self) -> u64 {
        let bytes = *self.0.finalize().as_bytes();
        u64::from_le_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
        ])
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}
