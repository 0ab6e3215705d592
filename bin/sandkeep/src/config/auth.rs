//! `[auth]`: who may come in besides tokens.

use crate::fail::Failure;
use serde::Deserialize;
use std::collections::BTreeMap;
use types::Owner;

/// Who may come in besides tokens.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct AuthConfig {
    /// An outside issuer of tokens.
    pub jwt: Option<JwtConfig>,
    /// User ids of this machine and the owners that they are, on a unix socket.
    pub unix: BTreeMap<String, Owner>,
}

/// An outside issuer of tokens.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct JwtConfig {
    /// Where its keys are: a file, or a URL.
    pub jwks: String,
    /// What a token's `iss` must be.
    pub issuer: String,
    /// One of which a token's `aud` must name.
    pub audience: Audience,
    /// The claim that says who the owner is.
    #[serde(default = "sub")]
    pub owner_claim: String,
}

/// One, or some.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    /// One.
    One(String),
    /// Any of these.
    Some(Vec<String>),
}

fn sub() -> String {
    "sub".to_owned()
}

impl AuthConfig {
    /// Refuses what would let in nobody, or everybody.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.owners()?;
        let Some(jwt) = self.issuer() else { return Ok(()) };
        let empty = jwt.issuer.is_empty()
            || jwt.owner_claim.is_empty()
            || jwt.audience.is_empty()
            || jwt.audience.iter().any(String::is_empty);
        if empty {
            let text = "[auth.jwt] needs an issuer, an audience and an owner-claim";
            return Err(Failure::new(text).into());
        }
        Ok(())
    }

    /// The issuer to trust.
    pub fn issuer(&self) -> Option<auth::jwt::Options> {
        let jwt = self.jwt.as_ref()?;
        let Ok(keys) = jwt.jwks.parse();
        Some(auth::jwt::Options {
            keys,
            issuer: jwt.issuer.clone(),
            audience: match &jwt.audience {
                Audience::One(one) => vec![one.clone()],
                Audience::Some(some) => some.clone(),
            },
            owner_claim: jwt.owner_claim.clone(),
        })
    }

    /// User ids and their owners.
    pub fn owners(&self) -> anyhow::Result<Vec<(u32, Owner)>> {
        let parsed = self.unix.iter().map(|(uid, owner)| {
            let text = || format!("[auth.unix]: {uid:?} is not a user id");
            let uid = uid.parse().map_err(|_| Failure::new(text()))?;
            Ok((uid, owner.clone()))
        });
        parsed.collect()
    }
}
