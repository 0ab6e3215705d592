//! The one way that every request takes.

use crate::auth::{self, Listening};
use crate::connection::Client;
use crate::query::Query;
use crate::reply::{self, RequestId, Shape};
use crate::routes::{BodyRule, Handler, Route};
use crate::{App, body, path};
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures::FutureExt;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, header};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument;
use tracing::field::Empty;
use types::{Error, ErrorCode, Owner, Result, SandboxId};

/// A request as its handler sees it: admitted, and with its body read.
pub(crate) struct Call {
    pub app: App,
    pub id: RequestId,
    pub headers: HeaderMap,
    pub query: Query,
    pub named: path::Named,
    pub body: Bytes,
    /// The body of a route that reads it itself.
    pub incoming: body::Incoming,
    /// The file that the path names, as bytes; empty where it names none.
    pub file: Vec<u8>,
    pub client: Client,
    /// How many tokens had been revoked before the one was looked at that let it in; `None`: it was
    /// none.
    revocations: Option<u64>,
}

impl Call {
    /// What the path names within the sandbox. Errors: as [`path::Named::get`].
    pub fn named(&self, field: &str) -> Result<&str> {
        self.named.get(field)
    }

    /// Waits until nobody may have the answer any more, as the client went away or its token was
    /// revoked: then what is done for this request alone ends. Cancel-safe.
    pub fn gone(&self) -> impl Future<Output = Error> + Send {
        // Not all of the call: its body may not be looked at by two threads.
        let Self { app, client, headers, revocations, .. } = self;
        async move {
            tokio::select! {
                () = client.gone() => Error::new(ErrorCode::Unavailable, "the client went away"),
                error = auth::revoked(app, headers, *revocations) => error,
            }
        }
    }
}

/// Answers one request. `routes` are those of its path, one for each method.
pub(crate) async fn dispatch(
    app: App,
    routes: Arc<[&'static Route]>,
    request: Request,
) -> Response {
    let id = RequestId::new();
    let began = Instant::now();
    let (parts, mut body) = request.into_parts();
    let pattern = routes.first().map_or("none", |r| r.path);
    let shape = Shape::of(parts.uri.path());
    // The pattern, not the path: what a caller writes there is not ours to repeat.
    let known = routes.iter().find(|r| r.method == parts.method);
    let method = known.map_or("other", |r| r.method.as_str());
    // Of a target of its own: for a collector, and not for the log.
    let trace = tracing::info_span!(
        target: "trace",
        "request",
        otel.name = format!("{method} {pattern}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = pattern,
        http.response.status_code = Empty,
        request.id = %id,
    );
    // Of the target of the line that has it, and there wherever a line about the request is.
    let span = tracing::error_span!(
        target: "request",
        parent: &trace,
        "request",
        %id,
        method,
        route = pattern,
        owner = Empty,
    );
    if let Some(join) = app.joins_trace
        && !trace.is_disabled()
    {
        join(&trace, &parts.headers);
    }
    let told = trace.clone();
    let answer = async {
        let work = AssertUnwindSafe(answer(&app, &id, &routes, parts, &mut body)).catch_unwind();
        let panicked = |_| Err(Error::new(ErrorCode::Internal, "a handler panicked"));
        let mut response = work
            .await
            .unwrap_or_else(panicked)
            .unwrap_or_else(|error| reply::error(&app.private, &id, error, shape));
        reply::finish(&mut response, &id);
        let (status, took) = (response.status(), began.elapsed());
        app.metrics.answered(pattern, method, status, took);
        let (status, ms) = (status.as_u16(), took.as_millis() as u64);
        told.record("http.response.status_code", status);
        if status >= 500 {
            told.record("otel.status_code", "ERROR");
        }
        // Of a target of its own, so that an operator may have them or not.
        if status >= 500 {
            tracing::warn!(target: "request", status, ms, "answered");
        } else {
            tracing::info!(target: "request", status, ms, "answered");
        }
        response
    };
    answer.instrument(span).instrument(trace).await
}

async fn answer(
    app: &App,
    id: &RequestId,
    routes: &[&'static Route],
    parts: Parts,
    body: &mut Body,
) -> Result<Response> {
    let expects = parts.headers.contains_key(header::EXPECT);
    let mut acting_for = None;
    let admitted = admit(app, id, routes, parts, body, &mut acting_for).await;
    let answer = match admitted {
        Ok((
            Handler::Server(run) | Handler::Reader(run) | Handler::Admin(run) | Handler::Keys(run),
            call,
            _,
        )) => run(call).await,
        Ok((Handler::Owner(run), call, target)) => run(call, target.owner()?).await,
        Ok((Handler::Sandbox(run), call, target)) => run(call, target.sandbox()?).await,
        Err(error) => {
            // A caller that is still sending would find its connection reset, and not the answer.
            if !expects {
                body::discard(std::mem::take(body));
            }
            Err(error)
        }
    };
    if let (Err(error), Some((owner, sandbox))) = (&answer, &acting_for) {
        app.sandboxes.quota_refused(owner, sandbox.as_ref(), error);
    }
    answer
}

async fn admit(
    app: &App,
    id: &RequestId,
    routes: &[&'static Route],
    parts: Parts,
    body: &mut Body,
    acting_for: &mut Option<(Owner, Option<SandboxId>)>,
) -> Result<(Handler, Call, path::Target)> {
    let door = parts.extensions.get::<Listening>().cloned().unwrap_or_default();
    let route = select(routes, &parts.method, parts.uri.path());
    let access = route.as_ref().ok().map(|route| route.access());
    // Before all else, also before it is told that there is no such route.
    let revocations = app.keyring.revocations();
    let identity = auth::authenticate(app, &door, access, &parts).await?;
    let route = route?;
    auth::check(&identity, route.access())?;
    let query = Query::parse(parts.uri.query(), |name| route.takes(name))?;
    let mut target = path::Target::of(route.path, parts.uri.path())?;
    if route.of_an_owner() {
        let owner = auth::acting_for(&identity, target.owner, &parts.headers, &query)?;
        let Some(owner) = owner else {
            return Err(auth::not_yours(app, id, &identity).await);
        };
        tracing::Span::current().record("owner", owner.as_str());
        target.owner = Some(owner);
    }
    *acting_for = target.owner.clone().map(|owner| (owner, target.id.clone()));
    // The administrator's door stays open, to make room.
    if let Some(owner) = target.owner.as_ref().filter(|_| door != Listening::Admin) {
        app.rates.count(owner)?;
    }
    let mut incoming = body::Incoming::default();
    let body = match route.body {
        BodyRule::Ignored => Bytes::new(),
        BodyRule::Streamed => {
            incoming = body::Incoming::take(app, body, &parts.headers)?;
            Bytes::new()
        }
        BodyRule::Optional(limit) => body::read(app, body, &parts.headers, limit, false).await?,
        BodyRule::Required(limit) => body::read(app, body, &parts.headers, limit, true).await?,
    };
    let client = parts.extensions.get::<Client>().cloned().unwrap_or_default();
    let (file, named) = (std::mem::take(&mut target.file), target.take_others());
    let (app, id, headers) = (app.clone(), *id, parts.headers);
    let by_token = door != Listening::Admin && !matches!(identity, auth::Identity::Open);
    let revocations = by_token.then_some(revocations);
    let call = Call { app, id, headers, query, named, body, incoming, file, client, revocations };
    Ok((route.handler, call, target))
}

/// The route of a method, or why there is none: 405 only below `/v1`.
fn select(routes: &[&'static Route], method: &Method, path: &str) -> Result<&'static Route> {
    let wanted = if method == Method::HEAD { &Method::GET } else { method };
    if let Some(route) = routes.iter().find(|r| r.method == *wanted) {
        return Ok(route);
    }
    if routes.is_empty() || !path.starts_with("/v1/") {
        return Err(Error::new(ErrorCode::NotFound, "there is no such route"));
    }
    let allowed: Vec<&str> = routes.iter().map(|r| r.method.as_str()).collect();
    let allowed = allowed.join(", ");
    let message = format!("this route does not take {method}; it takes {allowed}");
    Err(Error::new(ErrorCode::MethodNotAllowed, message).with("allow", allowed))
}
