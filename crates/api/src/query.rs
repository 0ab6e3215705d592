//! The query of a request. A parameter that the route does not know is refused: a misspelt
//! filter would answer more than was asked for.

use percent_encoding::percent_decode_str;
use std::ops::RangeInclusive;
use types::{Error, Result};

/// The parameter that may stand there more than once.
const LABEL: &str = "label";
/// Longest value, bytes.
const MAX: usize = 1024;
/// The parameter that is bytes and not text, as names of files are.
const PATH: &str = "path";
/// Longest path, bytes.
const PATH_MAX: usize = 64 << 10;

/// Decoded parameters.
#[derive(Debug, Default)]
pub(crate) struct Query {
    texts: Vec<(String, String)>,
    path: Option<Vec<u8>>,
}

impl Query {
    /// Errors: `VALIDATION_FAILED` of a parameter that is not `known`, given twice (but for labels), too long or
    /// not UTF-8.
    pub fn parse(raw: Option<&str>, known: impl Fn(&str) -> bool) -> Result<Self> {
        let mut query = Self::default();
        for pair in raw.unwrap_or_default().split('&').filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name).filter(|n| known(n)).ok_or_else(|| {
                let shown: String = name.chars().take(64).collect();
                let message = format!("the query parameter {shown:?} is not known here");
                Error::invalid(&shown, message)
            })?;
            if name == PATH {
                let path = bytes(value);
                if query.path.is_some() || path.len() > PATH_MAX {
                    return Err(Error::invalid(PATH, "path is given twice, or too long"));
                }
                query.path = Some(path);
                continue;
            }
            let value = decode(value).filter(|v| v.len() <= MAX).ok_or_else(|| {
                Error::invalid(&name, format!("{name} is not UTF-8, or too long"))
            })?;
            if name != LABEL && query.get(&name).is_some() {
                return Err(Error::invalid(&name, format!("{name} is given twice")));
            }
            query.texts.push((name, value));
        }
        Ok(query)
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// All labels, each `name=value`. Errors: `VALIDATION_FAILED`.
    pub fn labels(&self) -> Result<Vec<(String, String)>> {
        let all = self.texts.iter().filter(|(name, _)| name == LABEL);
        all.map(|(_, text)| {
            let pair = text.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned()));
            pair.ok_or_else(|| Error::invalid(LABEL, "label must be NAME=VALUE"))
        })
        .collect()
    }

    /// A time, in ms since the epoch or as RFC 3339. Errors: `VALIDATION_FAILED`.
    pub fn time(&self, name: &str) -> Result<Option<i64>> {
        let parse = |text| {
            types::parse_time(text).ok_or_else(|| {
                let form = "ms since the epoch, or a time such as 2026-09-30T12:34:56Z";
                Error::invalid(name, format!("{name} must be {form}"))
            })
        };
        self.get(name).map(parse).transpose()
    }

    /// The value of the parameter that is bytes; none where it is absent.
    pub fn bytes(&self, name: &str) -> &[u8] {
        debug_assert_eq!(name, PATH);
        self.path.as_deref().unwrap_or_default()
    }

    /// Whether a flag is set: `?flag`, `?flag=true`. Errors: `VALIDATION_FAILED`.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(_) => Err(Error::invalid(name, format!("{name} must be true or false"))),
        }
    }

    /// A whole number. Errors: `VALIDATION_FAILED` where it is not within `range`.
    pub fn number(&self, name: &str, range: RangeInclusive<u32>, default: u32) -> Result<u32> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        let value = text.parse().ok().filter(|n| digits && range.contains(n));
        value.ok_or_else(|| {
            let (min, max) = (*range.start(), *range.end());
            Error::invalid(name, format!("{name} must be a whole number from {min} to {max}"))
                .with("min", min)
                .with("max", max)
        })
    }
}

fn decode(text: &str) -> Option<String> {
    String::from_utf8(bytes(text)).ok()
}

fn bytes(text: &str) -> Vec<u8> {
    percent_decode_str(&text.replace('+', " ")).collect()
}
