//! Engines: interpreters that are installed in the cache, ready to be mapped.
//!
//! Reading order: `catalogue` (what there is, and its hashes), `install` (the steps), `fetch`
//! (packages, by the ordinary clients), `quickjs` (the one that is built here), `intl` (the files
//! behind its `Intl`), `strip` and `compile` (from a module to machine code), `base` (the image that
//! every context starts from), `cache` (where all of it lies), `seal` (which of it was written to
//! since it was checked).

mod base;
mod cache;
mod catalogue;
mod compile;
mod error;
mod fetch;
mod install;
mod intl;
mod quickjs;
mod seal;
mod strip;
mod tree;

pub use cache::{Cache, EngineBuild, EngineDir, default_dir};
pub use catalogue::{ENGINES, EngineSpec, find};
pub use compile::module_key;
pub use error::Error;
pub use install::{Progress, Step, check, install, verify};
pub(crate) use seal::{check_and_seal, holds};
pub use strip::{DataSegment, Stripped, strip};
