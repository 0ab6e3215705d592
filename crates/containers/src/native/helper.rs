//! The one helper process: started when needed, started again when it died.

use spawner::Helper;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Keeps a helper.
pub(super) struct Keeper {
    exe: Option<PathBuf>,
    now: Mutex<Option<Arc<Helper>>>,
}

impl Keeper {
    /// `exe`: a program that calls [`spawner::run_if_asked`] first; `None`: this very program.
    pub fn new(exe: Option<PathBuf>) -> Self {
        Self { exe, now: Mutex::new(None) }
    }

    /// A living helper. Blocks for a process start where there is none.
    pub fn get(&self) -> io::Result<Arc<Helper>> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(helper) = now.as_ref().filter(|helper| helper.alive()) {
            return Ok(helper.clone());
        }
        if now.take().is_some() {
            tracing::warn!("the helper died; another is started");
        }
        let helper = match &self.exe {
            Some(exe) => Helper::spawn_with(exe)?,
            None => Helper::spawn()?,
        };
        let helper = Arc::new(helper);
        *now = Some(helper.clone());
        Ok(helper)
    }

    /// Its process id, where one runs.
    pub fn pid(&self) -> Option<i32> {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.as_ref().map(|helper| helper.pid())
    }
}
