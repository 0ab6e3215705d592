//! How the host talks to one language.
//!
//! A driver is the code of ours inside an interpreter and its counterpart here. It is installed
//! once, when a base image is made; afterwards every context has it in its memory, and what the
//! host needs to find it again (addresses of objects, handles) is kept beside the base.
//!
//! A request is JSON: `{"code", "env", "cwd", "seed", "line"}`; `env` is the whole environment,
//! `seed` an integer below 2^53 on the first execution of a context made from a base and null
//! otherwise, `line` what the code is called in tracebacks. An answer is JSON: `{"cwd", "result",
//! "error"}`, the latter two `types::RichResult` and `types::CodeError` or null; `"broken": true` beside them says
//! that the code took from the driver what it needs to run any other. A request with `"check": true` is the host's own,
//! which sees whether code can run: it leaves nothing that code could see. Output needs
//! nothing of the driver but a flush before it answers: it is taken from file descriptors 1 and 2.

pub mod typescript;

mod javascript;
mod perl;
mod python;
mod ruby;

pub use javascript::JavaScript;
pub use perl::Perl;
pub use python::Python;
pub use ruby::Ruby;

use crate::{Guest, Live, Stop};
use serde_json::Value;
use std::any::Any;
use std::sync::Arc;
use wasmtime::Linker;

/// The driver of an engine of the catalogue; none where there is no engine of this name.
pub fn find(engine: &str) -> Option<Arc<dyn Driver>> {
    match engine {
        "javascript" => Some(Arc::new(JavaScript)),
        "perl" => Some(Arc::new(Perl)),
        "python" => Some(Arc::new(Python::PLAIN)),
        "python-data" => Some(Arc::new(Python::DATA)),
        "ruby" => Some(Arc::new(Ruby)),
        _ => None,
    }
}

/// How the host talks to one language. A driver has no state: that of an instance is made with
/// [`Driver::state`] and reached by [`Guest::ext`], that of a base is what [`Driver::boot`] gave.
#[async_trait::async_trait]
pub trait Driver: Send + Sync + 'static {
    /// Adds what the module imports beyond WASI.
    ///
    /// # Errors
    /// Where a name is defined twice.
    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()>;

    /// State for the imports of one instance, fresh for each.
    fn state(&self) -> Box<dyn Any + Send> {
        Box::new(())
    }

    /// The texts of all that [`Driver::boot`] puts into the interpreter: where one of them
    /// changes, a new base is made.
    fn sources(&self) -> &'static [&'static str] {
        &[]
    }

    /// Starts a fresh module, data segments and all: its initialisers, the interpreter, the usual
    /// imports, the driver. Nothing has run before. Arguments and environment are empty; set them
    /// in `live.store.data_mut().wasi` first where the interpreter wants some. Gives what
    /// [`Driver::call`] needs to find the driver in every context made from this base. The
    /// module's mutable globals must be as they were before (a stack at its top).
    ///
    /// # Errors
    /// Whatever stopped it.
    async fn boot(&self, live: &mut Live) -> Result<Value, Stop>;

    /// Runs one request and gives the answer. A guest's own error is an answer, not a [`Stop`].
    /// The future may be dropped at any await; the instance is dropped then as well.
    ///
    /// # Errors
    /// Whatever stopped it; the instance is dropped.
    async fn call(&self, live: &mut Live, handles: &Value, request: &[u8])
    -> Result<Vec<u8>, Stop>;

    /// A block of this many bytes in the guest, which nothing else has until it is let go; none
    /// where there is no room for it. A language that answers in less has nothing to hold.
    ///
    /// # Errors
    /// Whatever stopped it; the instance is dropped.
    async fn hold(&self, _live: &mut Live, _bytes: u32) -> Result<Option<u32>, Stop> {
        Ok(Some(0))
    }

    /// Lets go of it.
    ///
    /// # Errors
    /// As [`Driver::hold`].
    async fn let_go(&self, _live: &mut Live, _block: u32) -> Result<(), Stop> {
        Ok(())
    }

    /// Whether what the driver stands on is as it is in the base, whose bytes these are; asked after
    /// each execution whose memory is to be kept.
    fn is_whole(&self, _live: &mut Live, _handles: &Value, _base: &[u8]) -> bool {
        true
    }
}
