//! Values as they are written in files and in the environment, where all is text.

use figment::value::{Dict, Map, Value};
use figment::{Metadata, Profile, Provider};
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// What the environment sets: key → variable and text, which is taken as it is.
pub struct Environment(pub BTreeMap<&'static str, (String, String)>);

impl Provider for Environment {
    fn metadata(&self) -> Metadata {
        Metadata::named("environment variable")
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let values =
            self.0.iter().map(|(key, (_, text))| ((*key).to_owned(), Value::from(text.clone())));
        Ok(Map::from([(Profile::Default, values.collect())]))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Bool(bool),
    Number(u64),
    Text(String),
}

impl Written {
    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Written::Bool(b) => Unexpected::Bool(*b),
            Written::Number(n) => Unexpected::Unsigned(*n),
            Written::Text(t) => Unexpected::Str(t),
        }
    }
}

fn written<'de, D: Deserializer<'de>>(d: D, expected: &str) -> Result<Written, D::Error> {
    Written::deserialize(d).map_err(|_| D::Error::custom(format!("it must be {expected}")))
}

/// `true`, `false`, also as text, also `1` and `0`.
pub fn flag<'de, D: Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
    let expected = "true or false";
    let written = written(d, expected)?;
    match &written {
        Written::Bool(flag) => Ok(*flag),
        Written::Number(1) => Ok(true),
        Written::Number(0) => Ok(false),
        Written::Text(t) if t == "true" || t == "1" => Ok(true),
        Written::Text(t) if t == "false" || t == "0" => Ok(false),
        other => Err(D::Error::invalid_value(other.unexpected(), &expected)),
    }
}

/// A duration in ms: a number, or `10m`.
pub fn duration<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    let expected = "a duration such as 1500ms, 10s, 10m, 24h or 30d";
    match written(d, expected)? {
        Written::Number(ms) => types::parse_ms(&ms.to_string()).map_err(D::Error::custom),
        Written::Text(text) => types::parse_ms(&text).map_err(D::Error::custom),
        Written::Bool(b) => Err(D::Error::invalid_value(Unexpected::Bool(b), &expected)),
    }
}

/// A whole number that fits, also as text; null: none.
pub fn optional_number<'de, D, T>(d: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    let expected = "a whole number that is not too large";
    let written: Option<Written> =
        Option::deserialize(d).map_err(|_| D::Error::custom(format!("it must be {expected}")))?;
    let Some(written) = written else { return Ok(None) };
    let number = match &written {
        Written::Number(n) => Some(*n),
        Written::Text(t) => t.parse().ok(),
        Written::Bool(_) => None,
    };
    match number.and_then(|n| T::try_from(n).ok()) {
        Some(number) => Ok(Some(number)),
        None => Err(D::Error::invalid_value(written.unexpected(), &expected)),
    }
}

/// A number, or a text that says one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "it must be a number or a text")]
pub enum Amount {
    /// A whole number.
    Whole(u64),
    /// Any number.
    Number(f64),
    /// A text.
    Text(String),
}

impl Amount {
    /// A whole number.
    pub fn whole(&self) -> Option<u64> {
        match self {
            Self::Whole(n) => Some(*n),
            Self::Number(_) => None,
            Self::Text(text) => text.parse().ok(),
        }
    }

    /// A number that is not negative.
    pub fn share(&self) -> Option<f64> {
        let number = match self {
            Self::Whole(n) => Some(*n as f64),
            Self::Number(n) => Some(*n),
            Self::Text(text) => text.parse().ok(),
        };
        number.filter(|n| n.is_finite() && *n >= 0.0)
    }

    /// A number of bytes: `1500`, `10MB`, `256MiB`, `4GiB`.
    pub fn bytes(&self) -> Option<u64> {
        const UNITS: [(&str, u64); 8] = [
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("TiB", 1 << 40),
            ("kB", 1000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("TB", 1_000_000_000_000),
        ];
        let Self::Text(text) = self else { return self.whole() };
        let unit =
            UNITS.into_iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
        let (number, factor) = unit.unwrap_or((text, 1));
        number.trim_end().parse::<u64>().ok()?.checked_mul(factor)
    }
}

/// A number of bytes; absent: none.
pub fn optional_bytes<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    let amount = Amount::deserialize(d)?;
    let wrong = || D::Error::custom("it must be a number of bytes, such as 256MiB");
    amount.bytes().map(Some).ok_or_else(wrong)
}
