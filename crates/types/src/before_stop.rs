//! What an instance may do before it is stopped.

use crate::settings::check_argv;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Longest time that an instance has before a stop, ms.
pub const BEFORE_STOP_MAX_MS: u64 = 600_000;

/// What happens before an instance is stopped for idleness, through the API, or as its sandbox
/// expires: `sandbox.stopping` is told, and the command runs. Never before a destroy, nor where the
/// instance ended by itself or has to make room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BeforeStop {
    /// The command, run in the instance as root in `/workspace`; its end ends the wait. Without one
    /// the stop waits for the time alone, in which who was told may do something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// After this long the instance is stopped all the same, ms; at most 600 000. 0: at once, as if
    /// nothing were set. By default 10 000.
    #[serde(default = "usual")]
    #[schema(default = 10_000)]
    pub timeout_ms: u64,
}

/// How long it may take where nobody says, ms.
pub const BEFORE_STOP_MS: u64 = 10_000;

fn usual() -> u64 {
    BEFORE_STOP_MS
}

impl BeforeStop {
    /// Whether there is anything to be done.
    pub fn is_set(&self) -> bool {
        self.timeout_ms > 0
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.timeout_ms > BEFORE_STOP_MAX_MS {
            let rule = format!("beforeStop.timeoutMs must be at most {BEFORE_STOP_MAX_MS}");
            return Err(Error::invalid("beforeStop", rule).with("max", BEFORE_STOP_MAX_MS));
        }
        match &self.argv {
            Some(argv) => check_argv("beforeStop", argv),
            None => Ok(()),
        }
    }
}
