//! The table `[retention]`.

use super::values;
use sandbox::Retention;
use serde::Deserialize;

/// `[retention]`: how long is kept what is old, ms.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Kept {
    #[serde(deserialize_with = "values::duration")]
    executions: u64,
    #[serde(deserialize_with = "values::duration")]
    events: u64,
}

impl Default for Kept {
    fn default() -> Self {
        let usual = Retention::default();
        Self { executions: usual.executions, events: usual.events }
    }
}

impl Kept {
    /// With what the contract fixes.
    pub fn retention(&self) -> Retention {
        let Self { executions, events } = *self;
        Retention { executions, events, ..Retention::default() }
    }
}
