//! Base images: the memory of an interpreter that has started, from which every context starts.

use super::cache::{self, EngineBuild, EngineDir};
use super::catalogue::EngineSpec;
use super::strip::Stripped;
use super::{Cache, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Version of how bases are made: part of an engine's recipe.
pub(crate) const VERSION: u32 = 1;

/// What is known of a base image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BaseMeta {
    /// Size of the memory, bytes.
    pub memory_bytes: u64,
    /// What the driver needs to find itself again.
    pub handles: Value,
}

/// A base image that was made.
pub(crate) struct Made {
    pub hash: String,
    pub image: PathBuf,
    pub meta: PathBuf,
}

/// What is known of a build's base.
///
/// # Errors
/// [`Error::Damaged`]
pub(crate) fn read_meta(cache: &Cache, build: &EngineBuild) -> Result<BaseMeta, Error> {
    let damaged = |what: String| Error::Damaged { file: build.meta.clone(), what };
    let text = std::fs::read(cache.path(&build.meta)).map_err(|e| damaged(e.to_string()))?;
    serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))
}

/// Starts the interpreter and keeps its memory.
pub(crate) fn make(
    _cache: &Cache,
    spec: &EngineSpec,
    _module: &Path,
    _stripped: &Stripped,
    _wasm: &[u8],
    _dirs: &[EngineDir],
) -> Result<Made, Error> {
    let _ = cache::base_paths;
    Err(Error::Boot { engine: spec.name.to_owned(), what: "not yet".into() })
}
