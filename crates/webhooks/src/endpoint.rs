//! Where events are sent to, as the operator wrote it.

use hyper::Uri;
use types::{Event, EventType, Owner};

/// Shortest secret, bytes.
const SECRET: usize = 16;

/// What signs; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

/// One endpoint.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its name: under it its cursor is kept.
    pub name: String,
    pub(crate) scheme: Scheme,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) secret: Secret,
    types: Vec<EventType>,
    owner: Option<Owner>,
    pub(crate) allow_private: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// Why it is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The URL is none, or of another kind.
    #[error("its url {0}")]
    Url(&'static str),
    /// The secret is too short to sign with.
    #[error("its secret must have at least {SECRET} bytes")]
    Secret,
    /// The name is empty or too long.
    #[error("its name must have 1 to 100 characters, none of them a control character")]
    Name,
}

impl Endpoint {
    /// An endpoint that gets events of all owners and types, at public addresses. Without a name
    /// it is called by its scheme, host, port and path.
    pub fn new(name: Option<&str>, url: &str, secret: Secret) -> Result<Self, EndpointError> {
        let uri: Uri = url.parse().map_err(|_| EndpointError::Url("is no URL"))?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return Err(EndpointError::Url("must begin with https:// or http://")),
        };
        let authority = uri.authority().ok_or(EndpointError::Url("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(EndpointError::Url("must not hold a user or a password"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(EndpointError::Url("has no host"));
        }
        let usual = if scheme == Scheme::Https { 443 } else { 80 };
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None if authority.as_str().len() > authority.host().len() => {
                return Err(EndpointError::Url("has a port that is none"));
            }
            None => usual,
        };
        if secret.bytes().len() < SECRET {
            return Err(EndpointError::Secret);
        }
        let target = uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
        let name = name.map_or_else(|| shown(&uri), str::to_owned);
        if !(1..=100).contains(&name.chars().count()) || name.chars().any(char::is_control) {
            return Err(EndpointError::Name);
        }
        let (types, owner) = (Vec::new(), None);
        Ok(Self { name, scheme, host, port, target, secret, types, owner, allow_private: false })
    }

    /// Only events of these types; none: of all.
    #[must_use]
    pub fn types(mut self, types: Vec<EventType>) -> Self {
        self.types = types;
        self
    }

    /// Only events of this owner.
    #[must_use]
    pub fn owner(mut self, owner: Option<Owner>) -> Self {
        self.owner = owner;
        self
    }

    /// Also addresses that are not public: this machine and its networks.
    #[must_use]
    pub fn allow_private(mut self, allow: bool) -> Self {
        self.allow_private = allow;
        self
    }

    pub(crate) fn wants(&self, event: &Event) -> bool {
        let owner = self.owner.as_ref().is_none_or(|owner| *owner == event.owner);
        owner && (self.types.is_empty() || self.types.iter().any(|t| t.as_str() == event.kind))
    }

    pub(crate) fn filter(&self) -> store::EventFilter {
        let (owner, types) = (self.owner.clone(), self.types.clone());
        store::EventFilter { owner, sandbox: None, types }
    }

    /// The URL as it may be shown: what follows the path may be a secret.
    pub(crate) fn shown(&self) -> String {
        let scheme = if self.scheme == Scheme::Https { "https" } else { "http" };
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let path = self.target.split('?').next().unwrap_or_default();
        format!("{scheme}://{host}:{}{path}", self.port)
    }

    pub(crate) fn of_types(&self) -> &[EventType] {
        &self.types
    }

    pub(crate) fn of_owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }
}

fn shown(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |a| a.as_str());
    format!("{}://{authority}{}", uri.scheme_str().unwrap_or_default(), uri.path())
}
