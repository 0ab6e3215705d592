//! The one place that asks what time it is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Wall time for what is stored, monotonic time for durations.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// A file with ms to add to the wall time: tests move the clock with it.
    offset: Option<Arc<PathBuf>>,
}

impl Clock {
    /// The machine's clock. Where `SANDKEEP_TEST_CLOCK` names a file, the whole number in it is
    /// added to the wall time, in ms, at each reading.
    pub fn from_environment() -> Self {
        Self { offset: std::env::var_os("SANDKEEP_TEST_CLOCK").map(|p| Arc::new(p.into())) }
    }

    /// The machine's clock, and what stands in the file, as above.
    pub fn shifted_by(file: PathBuf) -> Self {
        Self { offset: Some(Arc::new(file)) }
    }

    /// Wall time, ms since the epoch.
    pub fn now_ms(&self) -> i64 {
        let ms = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_millis() as i64,
            Err(before) => -(before.duration().as_millis() as i64),
        };
        let offset = self.offset.as_ref().and_then(|path| {
            std::fs::read_to_string(path.as_path()).ok()?.trim().parse::<i64>().ok()
        });
        ms + offset.unwrap_or(0)
    }

    /// Monotonic time.
    pub fn instant(&self) -> Instant {
        Instant::now()
    }

    /// The monotonic time of a wall time in the past; a wall time to come counts as now.
    pub fn instant_of(&self, wall_ms: i64) -> Instant {
        let ago = self.now_ms().saturating_sub(wall_ms).max(0) as u64;
        let now = self.instant();
        now.checked_sub(Duration::from_millis(ago)).unwrap_or(now)
    }
}
