//! Cursors: the place of the last row, and a hash that binds it to the store, the owner and the
//! filter, so that no cursor is taken for another list's.

use crate::{Error, ListFilter, Result};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use types::{Owner, State};

const TAG: usize = 12;

/// Where a page begins: behind this row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) created_at: i64,
    pub(crate) id: String,
}

impl Place {
    /// Before all rows.
    pub(crate) fn start() -> Self {
        Self { created_at: i64::MIN, id: String::new() }
    }

    pub(crate) fn write(&self, key: &str, owner: &Owner, filter: &ListFilter) -> String {
        let mut bytes = tag(key, owner, filter, self).to_vec();
        bytes.extend(self.created_at.to_be_bytes());
        bytes.extend(self.id.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    pub(crate) fn read(text: &str, key: &str, owner: &Owner, filter: &ListFilter) -> Result<Self> {
        let broken = || Error::Cursor { detail: "it is broken" };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| broken())?;
        let (found, rest) = bytes.split_first_chunk::<TAG>().ok_or_else(broken)?;
        let (at, id) = rest.split_first_chunk::<8>().ok_or_else(broken)?;
        let id = String::from_utf8(id.to_vec()).map_err(|_| broken())?;
        let place = Self { created_at: i64::from_be_bytes(*at), id };
        if *found != tag(key, owner, filter, &place) {
            return Err(Error::Cursor {
                detail: "it is broken, or was made for another owner, prefix, state or server",
            });
        }
        Ok(place)
    }
}

fn tag(key: &str, owner: &Owner, filter: &ListFilter, place: &Place) -> [u8; TAG] {
    let state = match filter.state {
        None => "any",
        Some(State::Running) => "running",
        Some(State::Stopped) => "stopped",
    };
    // No prefix and the empty one are the same list.
    let prefix = filter.prefix.as_deref().unwrap_or_default();
    let mut hash = Sha256::new();
    for part in [key, owner.as_str(), state, prefix, &place.id] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.update(place.created_at.to_be_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|i| digest[i])
}
