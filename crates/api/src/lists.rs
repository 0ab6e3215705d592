//! Lists of sandboxes: an owner's own, and the administrator's of all owners.

use crate::dispatch::Call;
use crate::query::Query;
use crate::{path, reply};
use axum::response::Response;
use types::{Error, ListFilter, Owner, Page, Result, Sort, Span, State};

/// List sandboxes
///
/// One page of the owner's sandboxes. All conditions must hold. Going on with the cursor until it
/// is null shows each sandbox that is there all the while exactly once, whatever is made and
/// destroyed meanwhile; in an order by activity, each that is not active meanwhile. Starts, wakes
/// and prolongs nothing.
#[utoipa::path(get, path = "/v1/sandboxes", tag = "sandboxes", operation_id = "listSandboxes",
    params(
        ("prefix" = Option<String>, Query, description = "Only ids that start with this; case counts."),
        ("state" = Option<State>, Query, description = "Only sandboxes whose record has this state; those never started have none."),
        ("label" = Option<Vec<String>>, Query, description = "Only sandboxes with this label, `name=value`; repeatable, and then all must be there."),
        ("createdAfter" = Option<String>, Query, description = "Only entries made later than this: ms since the epoch, or RFC 3339."),
        ("createdBefore" = Option<String>, Query, description = "Only entries made earlier than this."),
        ("activeAfter" = Option<String>, Query, description = "Only sandboxes last active later than this."),
        ("activeBefore" = Option<String>, Query, description = "Only sandboxes last active earlier than this."),
        ("sort" = Option<Sort>, Query, description = "The order, `created` by default; with `-` the other way round. Ties are ordered by name."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "At most so many; 100 by default."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before, of the same owner, filter and order."),
    ),
    responses((status = 200, description = "A page.", body = Page)))]
pub(crate) async fn own(call: Call, owner: Owner) -> Result<Response> {
    page(call, Some(owner)).await
}

/// List the sandboxes of all owners
///
/// The same over all owners, or over the one that is named. Ties are ordered by `<owner>/<id>`, and
/// so is an order by name.
#[utoipa::path(get, path = "/v1/admin/sandboxes", tag = "sandboxes", operation_id = "listAllSandboxes",
    params(
        ("owner" = Option<String>, Query, description = "Only sandboxes of this owner."),
        ("prefix" = Option<String>, Query, description = "Only ids that start with this; case counts."),
        ("state" = Option<State>, Query, description = "Only sandboxes whose record has this state; those never started have none."),
        ("label" = Option<Vec<String>>, Query, description = "Only sandboxes with this label, `name=value`; repeatable, and then all must be there."),
        ("createdAfter" = Option<String>, Query, description = "Only entries made later than this: ms since the epoch, or RFC 3339."),
        ("createdBefore" = Option<String>, Query, description = "Only entries made earlier than this."),
        ("activeAfter" = Option<String>, Query, description = "Only sandboxes last active later than this."),
        ("activeBefore" = Option<String>, Query, description = "Only sandboxes last active earlier than this."),
        ("sort" = Option<Sort>, Query, description = "The order, `created` by default; with `-` the other way round. Ties are ordered by name."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "At most so many; 100 by default."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before, of the same owner, filter and order."),
    ),
    responses((status = 200, description = "A page.", body = Page)))]
pub(crate) async fn all(call: Call) -> Result<Response> {
    let owner = call.query.get("owner").map(str::parse::<Owner>).transpose();
    let owner = owner.map_err(|e| path::refused("owner", &e))?;
    page(call, owner).await
}

async fn page(call: Call, owner: Option<Owner>) -> Result<Response> {
    let filter = filter(&call.query)?;
    let limit = call.query.number("limit", 1..=1000, 100)?;
    let cursor = call.query.get("cursor");
    reply::ok(&call.app.sandboxes.list(owner.as_ref(), &filter, limit, cursor).await?)
}

/// What a query asks for. Errors: `VALIDATION_FAILED`.
fn filter(query: &Query) -> Result<ListFilter> {
    let state = match query.get("state") {
        None => None,
        Some("running") => Some(State::Running),
        Some("stopped") => Some(State::Stopped),
        Some(_) => return Err(Error::invalid("state", "state must be running or stopped")),
    };
    let span = |after, before| {
        Ok::<_, Error>(Span { after: query.time(after)?, before: query.time(before)? })
    };
    Ok(ListFilter {
        prefix: query.get("prefix").map(str::to_owned),
        state,
        labels: query.labels()?,
        created: span("createdAfter", "createdBefore")?,
        active: span("activeAfter", "activeBefore")?,
        sort: query.get("sort").map_or(Ok(Sort::default()), str::parse)?,
    })
}
