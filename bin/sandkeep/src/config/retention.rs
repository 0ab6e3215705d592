//! The table `[retention]`.

use super::values;
use sandbox::Retention;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// `[retention]`: how long is kept what is old, ms.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Kept {
    #[serde(deserialize_with = "time")]
    executions: u64,
    #[serde(deserialize_with = "time")]
    events: u64,
}

/// 0, which elsewhere stands for never, would keep nothing.
fn time<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    match values::duration(d)? {
        0 => Err(D::Error::custom("it must be longer than 0, as after that all are deleted")),
        time => Ok(time),
    }
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
