//! Names: the sandbox id, the owner, and what is derived from them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// Longest name, in characters.
const MAX: usize = 63;

/// Sandbox ids that nobody may use, in any case (S4).
pub const RESERVED_NAMES: [&str; 7] =
    ["www", "api", "admin", "root", "system", "cloudflare", "workers"];

/// Why a name was refused. The message names the rule, the limit and the offending character.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has no characters.
    #[error("{kind} is empty: it must have 1 to {MAX} characters from A-Z a-z 0-9 . _ -")]
    Empty {
        /// `sandbox id` or `owner`.
        kind: &'static str,
    },
    /// The name is longer than 63 characters.
    #[error("{kind} has {length} characters: at most {MAX} are allowed")]
    TooLong {
        /// `sandbox id` or `owner`.
        kind: &'static str,
        /// How many characters it has.
        length: usize,
    },
    /// A character outside the alphabet.
    #[error(
        "{kind} has the character {found:?} at position {position}: only A-Z a-z 0-9 . _ - are allowed (1 to {MAX} characters)"
    )]
    Character {
        /// `sandbox id` or `owner`.
        kind: &'static str,
        /// The first character that is not allowed.
        found: char,
        /// Where it stands, counted in characters from 1.
        position: usize,
    },
    /// A hyphen at either end.
    #[error(
        "{kind} {end} with the character '-': a hyphen may stand only inside (1 to {MAX} characters)"
    )]
    EdgeHyphen {
        /// `sandbox id` or `owner`.
        kind: &'static str,
        /// `starts` or `ends`.
        end: &'static str,
    },
    /// `.` or `..` (D).
    #[error("{kind} {name:?} consists of the character '.' alone: `.` and `..` are not names")]
    Dots {
        /// `sandbox id` or `owner`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// One of [`RESERVED_NAMES`].
    #[error(
        "sandbox id {name:?} is reserved: www, api, admin, root, system, cloudflare and workers are not allowed in any case"
    )]
    Reserved {
        /// The name.
        name: String,
    },
}

fn check(kind: &'static str, name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty { kind });
    }
    let alien = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if let Some((i, found)) = name.chars().enumerate().find(|(_, c)| alien(*c)) {
        return Err(NameError::Character { kind, found, position: i + 1 });
    }
    if name.len() > MAX {
        return Err(NameError::TooLong { kind, length: name.len() });
    }
    if name.starts_with('-') {
        return Err(NameError::EdgeHyphen { kind, end: "starts" });
    }
    if name.ends_with('-') {
        return Err(NameError::EdgeHyphen { kind, end: "ends" });
    }
    if name == "." || name == ".." {
        return Err(NameError::Dots { kind, name: name.to_owned() });
    }
    Ok(())
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, utoipa::ToSchema)]
        #[schema(value_type = String)]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

name_type! {
    /// A sandbox's id, unique for its owner (S4): `^[A-Za-z0-9._-]{1,63}$`, no hyphen at the
    /// edges, not reserved, not `.` or `..`. Ids that differ by case are two sandboxes (D).
    SandboxId
}
name_type! {
    /// The identity that a caller proved: the alphabet of [`SandboxId`], nothing reserved.
    Owner
}

impl FromStr for SandboxId {
    type Err = NameError;
    fn from_str(name: &str) -> Result<Self, NameError> {
        check("sandbox id", name)?;
        if RESERVED_NAMES.iter().any(|r| r.eq_ignore_ascii_case(name)) {
            return Err(NameError::Reserved { name: name.to_owned() });
        }
        Ok(Self(name.to_owned()))
    }
}

impl FromStr for Owner {
    type Err = NameError;
    fn from_str(name: &str) -> Result<Self, NameError> {
        check("owner", name)?;
        Ok(Self(name.to_owned()))
    }
}

impl Owner {
    /// The owner in open mode when the caller names none.
    pub fn local() -> Self {
        Self("local".to_owned())
    }
}

/// Owner and id together: `<owner>/<session>`, the name account-wide (S1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SandboxName {
    /// Whose it is.
    pub owner: Owner,
    /// Its id.
    pub id: SandboxId,
}

impl SandboxName {
    /// The name of `id` of `owner`.
    pub fn new(owner: Owner, id: SandboxId) -> Self {
        Self { owner, id }
    }

    /// The object that carries this name.
    pub fn object_id(&self) -> ObjectId {
        ObjectId(Sha256::digest(self.to_string().as_bytes()).into())
    }
}

impl fmt::Display for SandboxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.id)
    }
}

/// SHA-256 of a [`SandboxName`], written as 64 lower-case hex digits. Directories, cgroups and
/// sockets carry this, never a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 32]);

impl ObjectId {
    /// The digest itself.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an object id is 64 lower-case hex digits")]
pub struct ObjectIdError;

impl FromStr for ObjectId {
    type Err = ObjectIdError;
    fn from_str(text: &str) -> Result<Self, ObjectIdError> {
        let digit = |b: u8| match b {
            b'0'..=b'9' => Ok(b - b'0'),
            b'a'..=b'f' => Ok(b - b'a' + 10),
            _ => Err(ObjectIdError),
        };
        let text: &[u8; 64] = text.as_bytes().try_into().map_err(|_| ObjectIdError)?;
        let mut id = [0; 32];
        for (byte, pair) in id.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(id))
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
