//! Which back end makes instances, and what it cannot do here.

use crate::config::{Config, EngineKind};
use anyhow::Context as _;
use containers::{Capabilities, Engine, NativeEngine, NativeOptions, OciEngine, OciOptions};
use std::path::Path;
use std::sync::Arc;

/// Opens the back end that is configured.
pub fn open(config: &Config, data: &Path) -> anyhow::Result<Arc<dyn Engine>> {
    match config.engine {
        EngineKind::Native => {
            let mut options = NativeOptions::new(data);
            options.disk_floor_bytes = config.disk_floor;
            if let Some(base) = config.id_base {
                options.id_base_start = base;
            }
            let engine = NativeEngine::open(options).context("cannot open the engine")?;
            Ok(engine)
        }
        EngineKind::Oci => {
            let mut options = OciOptions::new(data);
            options.runtime = config.runtime.clone().into();
            if let Some(base) = config.id_base {
                options.id_base_start = base;
            }
            let engine = OciEngine::open(options).context("cannot open the engine")?;
            Ok(engine)
        }
    }
}

/// What a back end does not enforce or offer, in words.
pub fn missing(can: Capabilities) -> Vec<&'static str> {
    let all = [
        (can.memory_limit, "limit memory"),
        (can.pids_limit, "limit processes"),
        (can.cpu_limit, "limit processor time"),
        (can.disk_limit, "limit disk"),
        (can.users, "run commands as other users than root of the instance"),
        (can.tree_kill, "kill a command with its whole tree"),
        (can.adopt, "keep instances over a restart of the server"),
    ];
    all.into_iter().filter(|(can, _)| !can).map(|(_, what)| what).collect()
}
