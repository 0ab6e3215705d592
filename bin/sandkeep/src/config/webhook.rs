//! `[[webhooks]]` of the configuration file.

use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use webhooks::Secret;

/// Where events are sent to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Webhook {
    /// Its name; by default its URL without what follows the path.
    pub name: Option<String>,
    /// Where to.
    pub url: String,
    /// What signs.
    #[serde(default, deserialize_with = "secret")]
    pub secret: Option<Secret>,
    /// A file that holds what signs.
    pub secret_file: Option<PathBuf>,
    /// Only events of these types.
    #[serde(default)]
    pub types: Vec<String>,
    /// Only events of this owner.
    pub owner: Option<String>,
    /// Also addresses of this machine and of private networks.
    #[serde(default)]
    pub allow_private: bool,
}

fn secret<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Secret>, D::Error> {
    // The message of a wrong type would show it.
    let text = String::deserialize(d)
        .map_err(|_| serde::de::Error::custom("the secret must be a text"))?;
    Ok(Some(Secret::new(text)))
}
