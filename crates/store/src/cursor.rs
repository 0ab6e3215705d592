//! Cursors: the place of the last row, and a hash that binds it to the store, the list and its
//! filter, so that no cursor is taken for another list's.

use crate::{Error, Result};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use types::{InstanceFilter, ListFilter, Owner, State};

const TAG: usize = 12;

/// Where a page begins: behind this row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// What the list is ordered by, where that is a time; else 0.
    pub(crate) at: i64,
    /// What orders rows of the same time.
    pub(crate) name: String,
}

/// A list, as all that must be the same from page to page.
pub(crate) struct List(Vec<String>);

impl List {
    /// Sandboxes of an owner, or of all.
    pub(crate) fn sandboxes(owner: Option<&Owner>, filter: &ListFilter) -> Self {
        let state = match filter.state {
            None => "any",
            Some(State::Running) => "running",
            Some(State::Stopped) => "stopped",
        };
        let times = [
            filter.created.after,
            filter.created.before,
            filter.active.after,
            filter.active.before,
        ];
        let mut labels: Vec<_> = filter.labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
        labels.sort_unstable();
        labels.dedup();
        let mut all = vec![
            "sandboxes".to_owned(),
            // No owner has this name.
            owner.map_or("*", Owner::as_str).to_owned(),
            state.to_owned(),
            // No prefix and the empty one are the same list.
            filter.prefix.clone().unwrap_or_default(),
            filter.sort.as_str().to_owned(),
        ];
        all.extend(times.iter().map(|t| t.map_or_else(String::new, |t| t.to_string())));
        all.extend(labels);
        Self(all)
    }

    /// The account's instances.
    pub(crate) fn account(filter: &InstanceFilter) -> Self {
        let active = filter.active.map_or("any", |active| if active { "yes" } else { "no" });
        Self(vec!["account".to_owned(), active.to_owned(), filter.prefix.clone()])
    }

    fn tag(&self, key: &str, place: &Place) -> [u8; TAG] {
        let mut hash = Sha256::new();
        let parts = self.0.iter().map(String::as_str);
        for part in [key, &place.name].into_iter().chain(parts) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update(place.at.to_be_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        std::array::from_fn(|i| digest[i])
    }

    /// The cursor of a place in this list.
    pub(crate) fn write(&self, key: &str, place: &Place) -> String {
        let mut bytes = self.tag(key, place).to_vec();
        bytes.extend(place.at.to_be_bytes());
        bytes.extend(place.name.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The place of a cursor of this list. Errors: `Cursor`.
    pub(crate) fn read(&self, key: &str, text: &str) -> Result<Place> {
        let broken = || Error::Cursor { detail: "it is broken" };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| broken())?;
        let (found, rest) = bytes.split_first_chunk::<TAG>().ok_or_else(broken)?;
        let (at, name) = rest.split_first_chunk::<8>().ok_or_else(broken)?;
        let name = String::from_utf8(name.to_vec()).map_err(|_| broken())?;
        let place = Place { at: i64::from_be_bytes(*at), name };
        if *found != self.tag(key, &place) {
            return Err(Error::Cursor {
                detail: "it is broken, or was made for another owner, filter, order or server",
            });
        }
        Ok(place)
    }
}
