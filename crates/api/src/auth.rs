//! Who calls, and for whom (section 10 of the contract).
//!
//! A request proves who sends it with a token, or by the socket on which it came. Where the
//! server has no tokens it is in open mode: see [`open`].

mod bearer;
mod open;

use crate::App;
use crate::query::Query;
use crate::reply::RequestId;
use crate::routes::Access;
use hyper::HeaderMap;
use hyper::http::request::Parts;
use types::{Error, ErrorCode, Grant, Owner, Result, SandboxName, Scope};

/// By which door a request came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Listening {
    /// TCP: who calls is proved by a token, or open mode lets everybody in.
    #[default]
    Tcp,
    /// The administrator's socket; its peer was checked when it connected.
    Admin,
    /// Another socket of this machine, and who is at its other end; `None`: nobody that is known.
    Peer(Option<Grant>),
}

/// A caller, once known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Nobody asked: the route is for anybody.
    Unasked,
    /// Anybody on this machine: acts for any owner.
    Open,
    /// The administrator: acts for any owner.
    Admin,
    /// An owner: acts for itself.
    Owner(Owner),
    /// Who may read what all owners have, and acts for nobody.
    Reader,
}

impl From<Grant> for Identity {
    fn from(grant: Grant) -> Self {
        match grant {
            Grant::Owner(owner) => Self::Owner(owner),
            Grant::Scope(Scope::ContainersRead) => Self::Reader,
            Grant::Scope(Scope::Admin) => Self::Admin,
        }
    }
}

/// Names the owner where the path does not.
const OWNER: &str = "sandkeep-owner";

/// Finds out who calls a route of `access`; `None`: there is no such route. Errors: `FORBIDDEN`,
/// `UNAUTHENTICATED`.
pub(crate) async fn authenticate(
    app: &App,
    door: &Listening,
    access: Option<Access>,
    parts: &Parts,
) -> Result<Identity> {
    let proved = match door {
        Listening::Admin => return Ok(Identity::Admin),
        Listening::Peer(grant) => Some(grant),
        Listening::Tcp => None,
    };
    if proved.is_none() && !app.keyring.asks() {
        open::check(&parts.headers, &parts.uri)?;
        return Ok(Identity::Open);
    }
    if access == Some(Access::Anybody) {
        return Ok(Identity::Unasked);
    }
    // A peer that sends a token is who the token says: one may speak for others.
    if let Some(Some(grant)) = proved
        && !parts.headers.contains_key(hyper::header::AUTHORIZATION)
    {
        return Ok(grant.clone().into());
    }
    let token = bearer::token(&parts.headers)?;
    Ok(app.keyring.recognise(token).await?.into())
}

/// Whether the request has a token that is good now. Errors: `UNAUTHENTICATED`.
pub(crate) async fn holds(app: &App, headers: &HeaderMap) -> Result<()> {
    if !app.keyring.asks() {
        return Err(Error::new(ErrorCode::Unauthenticated, "nobody is asked for a token"));
    }
    app.keyring.recognise(bearer::token(headers)?).await.map(drop)
}

/// Waits until the token of a request is revoked that was good when there were `since`
/// revocations; what the caller is told. `None`: no token let it in. Cancel-safe.
pub(crate) async fn revoked(app: &App, headers: &HeaderMap, since: Option<u64>) -> Error {
    match (since, bearer::token(headers)) {
        (Some(since), Ok(token)) => app.keyring.revoked(token, since).await,
        _ => std::future::pending().await,
    }
}

/// Whether `identity` may call routes of `access`; for which owner is looked at apart. Errors:
/// `FORBIDDEN`.
pub(crate) fn check(identity: &Identity, access: Access) -> Result<()> {
    use Identity as I;
    let allowed = match access {
        Access::Anybody => true,
        Access::Owner => matches!(identity, I::Open | I::Admin | I::Owner(_)),
        Access::Reader => matches!(identity, I::Open | I::Admin | I::Reader),
        Access::Admin => matches!(identity, I::Open | I::Admin),
        Access::Keys => matches!(identity, I::Admin),
    };
    if allowed {
        return Ok(());
    }
    let needed = match access {
        Access::Anybody | Access::Owner => "a token of an owner, or the scope admin",
        Access::Reader => "the scope containers:read or admin",
        Access::Admin => "the scope admin",
        Access::Keys => "a token with the scope admin, or the socket admin.sock",
    };
    Err(Error::new(ErrorCode::Forbidden, format!("this route needs {needed}")))
}

/// The owner for whom `identity` acts: of the path, else of the header or the query, else its
/// own, else `local`. An owner acts for itself alone: `None` where it names another. Errors:
/// `VALIDATION_FAILED` of `owner`.
pub(crate) fn acting_for(
    identity: &Identity,
    of_path: Option<Owner>,
    headers: &HeaderMap,
    query: &Query,
) -> Result<Option<Owner>> {
    let Identity::Owner(own) = identity else {
        // Where the path names the owner, nothing else does.
        let named = if of_path.is_some() { of_path } else { named(headers, query)? };
        return Ok(Some(named.unwrap_or_else(Owner::local)));
    };
    let named = named(headers, query)?;
    let others = of_path.iter().chain(&named).any(|owner| owner != own);
    Ok((!others).then(|| own.clone()))
}

/// The owner that header or query name.
fn named(headers: &HeaderMap, query: &Query) -> Result<Option<Owner>> {
    let mut named: Option<&str> = query.get("owner");
    for value in headers.get_all(OWNER) {
        let value = value.to_str().map_err(|_| {
            Error::invalid("owner", "the header Sandkeep-Owner has characters beyond ASCII")
        })?;
        if named.is_some_and(|other| other != value) {
            return Err(Error::invalid("owner", "the request names two owners"));
        }
        named = Some(value);
    }
    named.map(|name| name.parse().map_err(|e| crate::path::refused("owner", &e))).transpose()
}

/// What is answered to an owner who names another: what a sandbox that is not there would be
/// answered, and the same way, whether or not the other has it. Nothing is made, on any method.
pub(crate) async fn not_yours(app: &App, id: &RequestId, identity: &Identity) -> Error {
    let missing = || Error::new(ErrorCode::SandboxNotFound, "no such sandbox");
    let Identity::Owner(own) = identity else { return missing() };
    // An id that nobody can have chosen.
    let Ok(nothing) = format!("{id}{}", RequestId::new()).parse() else { return missing() };
    let looked_up = app.sandboxes.record(&SandboxName::new(own.clone(), nothing)).await;
    looked_up.err().unwrap_or_else(missing)
}

#[cfg(test)]
mod tests;
