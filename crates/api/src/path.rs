//! Names in paths: each segment is decoded once, by itself, and then held against the rule of
//! names. What decodes to a slash or to dots is thus a bad name and never another route.

use percent_encoding::percent_decode_str;
use types::{Error, ErrorCode, NameError, Owner, Result, SandboxId, SandboxName};

/// The segment that stands for all that follows, slashes and all.
pub(crate) const WILDCARD: &str = "{*path}";

/// What a path names.
#[derive(Default)]
pub(crate) struct Target {
    pub owner: Option<Owner>,
    pub id: Option<SandboxId>,
    /// What `{*path}` stands for, decoded: bytes, with slashes between names.
    pub file: Vec<u8>,
    others: Named,
}

/// What a path names within a sandbox, by the pattern's word for it.
#[derive(Default)]
pub(crate) struct Named(Vec<(&'static str, String)>);

impl Named {
    /// Errors: `INTERNAL` where the pattern has no such word.
    pub fn get(&self, field: &str) -> Result<&str> {
        let found = self.0.iter().find(|(known, _)| *known == field);
        let none = || Error::new(ErrorCode::Internal, format!("the route names no {field}"));
        found.map(|(_, text)| text.as_str()).ok_or_else(none)
    }
}

impl Target {
    /// The names in `path`, which has the shape of `pattern`. Errors: `VALIDATION_FAILED`.
    pub fn of(pattern: &'static str, path: &str) -> Result<Self> {
        let mut target = Self::default();
        for (at, (pattern, raw)) in pattern.split('/').zip(path.split('/')).enumerate() {
            if pattern == WILDCARD {
                let rest = path.splitn(at + 1, '/').nth(at).unwrap_or_default();
                target.file = percent_decode_str(rest).collect();
                break;
            }
            let field = pattern.strip_prefix('{').and_then(|p| p.strip_suffix('}'));
            let Some(field) = field else { continue };
            let text = percent_decode_str(raw).decode_utf8().map_err(|_| {
                Error::invalid(field, format!("{field} is not UTF-8 once percent-decoded"))
            })?;
            match field {
                "owner" => target.owner = Some(text.parse().map_err(|e| refused(field, &e))?),
                // No rule: what is not there is not found.
                "ctx" | "checkpoint" | "token" | "account" | "application" | "instance" => {
                    target.others.0.push((field, text.into_owned()))
                }
                _ => target.id = Some(text.parse().map_err(|e| refused(field, &e))?),
            }
        }
        Ok(target)
    }

    /// What it names within the sandbox.
    pub fn take_others(&mut self) -> Named {
        std::mem::take(&mut self.others)
    }

    pub fn owner(self) -> Result<Owner> {
        self.owner.ok_or_else(|| Error::new(ErrorCode::Internal, "the route names no owner"))
    }

    pub fn sandbox(self) -> Result<SandboxName> {
        match (self.owner, self.id) {
            (Some(owner), Some(id)) => Ok(SandboxName::new(owner, id)),
            _ => Err(Error::new(ErrorCode::Internal, "the route names no sandbox")),
        }
    }
}

/// A name that breaks the rule.
pub(crate) fn refused(field: &str, error: &NameError) -> Error {
    Error::invalid(field, error.to_string())
}
