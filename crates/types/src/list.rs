//! Which sandboxes a list holds, in which order; labels.

use crate::{Error, Result, State};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most labels of one sandbox.
pub const LABELS_MAX: usize = 32;
/// Longest name of a label, characters.
const NAME_MAX: usize = 63;
/// Longest value of a label, bytes.
const VALUE_MAX: usize = 255;

/// The order of a list. Ties are ordered by name, in the same direction.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
pub enum Sort {
    /// Oldest entry first.
    #[default]
    #[serde(rename = "created")]
    Created,
    /// Newest entry first.
    #[serde(rename = "-created")]
    CreatedDown,
    /// Longest without activity first.
    #[serde(rename = "active")]
    Active,
    /// Latest activity first.
    #[serde(rename = "-active")]
    ActiveDown,
    /// By name, A to Z; capitals come before small letters.
    #[serde(rename = "name")]
    Name,
    /// By name, Z to A.
    #[serde(rename = "-name")]
    NameDown,
}

impl Sort {
    /// Every order.
    pub const ALL: [Sort; 6] = [
        Sort::Created,
        Sort::CreatedDown,
        Sort::Active,
        Sort::ActiveDown,
        Sort::Name,
        Sort::NameDown,
    ];

    /// The order as it is written in a query.
    pub fn as_str(self) -> &'static str {
        match self {
            Sort::Created => "created",
            Sort::CreatedDown => "-created",
            Sort::Active => "active",
            Sort::ActiveDown => "-active",
            Sort::Name => "name",
            Sort::NameDown => "-name",
        }
    }

    /// Whether the greatest comes first.
    pub fn descends(self) -> bool {
        matches!(self, Sort::CreatedDown | Sort::ActiveDown | Sort::NameDown)
    }
}

impl std::str::FromStr for Sort {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Sort::ALL.into_iter().find(|sort| sort.as_str() == text).ok_or_else(|| {
            let all = "created, -created, active, -active, name or -name";
            Error::invalid("sort", format!("sort must be {all}"))
        })
    }
}

/// A time between two others, ms since the epoch; both are excluded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Later than this.
    pub after: Option<i64>,
    /// Earlier than this.
    pub before: Option<i64>,
}

/// Which sandboxes a list holds, and in which order. All conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Start of the id, case-sensitive.
    pub prefix: Option<String>,
    /// State of the record; sandboxes never started have none and match no state.
    pub state: Option<State>,
    /// Labels that it must have, with these values.
    pub labels: Vec<(String, String)>,
    /// When its directory entry was made.
    pub created: Span,
    /// When it was last active.
    pub active: Span,
    /// The order.
    pub sort: Sort,
}

impl ListFilter {
    /// Checks the labels: their form, and that there are not more than a sandbox can have.
    /// Errors: `VALIDATION_FAILED` of `label`.
    pub fn validate(&self) -> Result<()> {
        if self.labels.len() > LABELS_MAX {
            return Err(too_many("label", self.labels.len()));
        }
        self.labels.iter().try_for_each(|(name, value)| check_label("label", name, Some(value)))
    }
}

/// Checks labels to set, or with `None` to remove. Errors: `VALIDATION_FAILED` of `field`.
pub(crate) fn check_labels<'a>(
    field: &str,
    labels: impl Iterator<Item = (&'a String, Option<&'a String>)>,
) -> Result<()> {
    let mut set = 0;
    for (name, value) in labels {
        check_label(field, name, value)?;
        set += usize::from(value.is_some());
    }
    if set > LABELS_MAX { Err(too_many(field, set)) } else { Ok(()) }
}

fn check_label(field: &str, name: &str, value: Option<&String>) -> Result<()> {
    let rule = "1 to 63 characters from A-Z a-z 0-9 . _ / -";
    let shown: String = name.chars().take(NAME_MAX + 1).collect();
    let alien = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-'));
    if let Some(found) = name.chars().find(alien) {
        let why = format!("the label {shown:?} has the character {found:?}: names have {rule}");
        return Err(Error::invalid(field, why));
    }
    if name.is_empty() || name.len() > NAME_MAX {
        let why = format!("the label {shown:?} has {} characters: names have {rule}", name.len());
        return Err(Error::invalid(field, why).with("max", NAME_MAX));
    }
    let Some(value) = value else { return Ok(()) };
    if value.len() > VALUE_MAX {
        let length = value.len();
        let why = format!("the label {name} has {length} bytes: at most {VALUE_MAX} are allowed");
        return Err(Error::invalid(field, why).with("max", VALUE_MAX));
    }
    match value.chars().find(|c| c.is_control()) {
        Some(c) => {
            let why = format!("the label {name} has the control character {c:?} in its value");
            Err(Error::invalid(field, why))
        }
        None => Ok(()),
    }
}

fn too_many(field: &str, count: usize) -> Error {
    Error::invalid(field, format!("{count} labels: at most {LABELS_MAX} are allowed"))
        .with("max", LABELS_MAX)
}

/// Labels with changes applied. Errors: `VALIDATION_FAILED` of `labels` where there are more than
/// [`LABELS_MAX`] then.
pub fn changed_labels(
    labels: &BTreeMap<String, String>,
    changes: &BTreeMap<String, Option<String>>,
) -> Result<BTreeMap<String, String>> {
    let mut labels = labels.clone();
    for (name, value) in changes {
        match value {
            Some(value) => drop(labels.insert(name.clone(), value.clone())),
            None => drop(labels.remove(name)),
        }
    }
    if labels.len() > LABELS_MAX { Err(too_many("labels", labels.len())) } else { Ok(labels) }
}
