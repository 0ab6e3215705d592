//! The table `[memory]`.

use super::values::{self, Amount};
use sandbox::MemoryRules;
use serde::{Deserialize, Deserializer};

/// `[memory]`: when the machine counts as short of memory.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Memory {
    /// Bytes that are kept free.
    #[serde(deserialize_with = "values::optional_bytes")]
    reserve: Option<u64>,
    #[serde(deserialize_with = "factor")]
    overcommit: Option<f64>,
    #[serde(deserialize_with = "percent")]
    pressure: Option<f64>,
}

impl Memory {
    /// The rules, with the defaults where nothing is named.
    pub fn rules(&self) -> MemoryRules {
        let usual = MemoryRules::default();
        MemoryRules {
            reserve: self.reserve.or(usual.reserve),
            overcommit: self.overcommit.unwrap_or(usual.overcommit),
            pressure: self.pressure.unwrap_or(usual.pressure),
        }
    }
}

fn within<'de, D: Deserializer<'de>>(
    d: D,
    range: std::ops::RangeInclusive<f64>,
) -> Result<Option<f64>, D::Error> {
    let number = Amount::deserialize(d)?.share().filter(|n| range.contains(n));
    let (least, most) = (range.start(), range.end());
    let wrong = || serde::de::Error::custom(format!("it must be between {least} and {most}"));
    number.map(Some).ok_or_else(wrong)
}

fn factor<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
    within(d, 1.0..=1000.0)
}

fn percent<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
    within(d, 0.0..=100.0)
}
