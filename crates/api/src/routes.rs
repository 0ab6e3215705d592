//! The table of routes. What is not in it does not exist.

use crate::dispatch::{Call, dispatch};
use crate::{
    App, account, backup, code, contexts, documents, events, exec, files, instances, lists, meta,
    metrics, path, quotas, tokens, v1, webhooks,
};
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use futures::future::BoxFuture;
use hyper::Method;
use std::collections::BTreeMap;
use types::{ErrorCode, Owner, Result, SandboxName};

/// Largest body of the routes that take a few settings, bytes.
pub const SMALL_BODY: usize = 1 << 20;
/// Largest body of the routes that run a command, whose standard input is in it, bytes.
pub const EXEC_BODY: usize = 32 << 20;

/// What a route does with a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyRule {
    /// It is not read.
    Ignored,
    /// JSON of at most so many bytes; none at all counts as `{}`.
    Optional(usize),
    /// JSON of at most so many bytes.
    Required(usize),
    /// Bytes of any type and any number; the route reads them as they come.
    Streamed,
}

type Answer = BoxFuture<'static, Result<Response>>;

/// What answers, and with it who may call: see [`Access`].
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    Server(fn(Call) -> Answer),
    Owner(fn(Call, Owner) -> Answer),
    Sandbox(fn(Call, SandboxName) -> Answer),
    Reader(fn(Call) -> Answer),
    Admin(fn(Call) -> Answer),
    Keys(fn(Call) -> Answer),
}

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody who may connect: it tells nothing of anybody.
    Anybody,
    /// Who may act as the owner for whom it acts.
    Owner,
    /// Who may read what all owners have (the scope `containers:read`), and administrators.
    Reader,
    /// Administrators, and in open mode anybody.
    Admin,
    /// Administrators who proved that they are: what they make here opens doors.
    Keys,
}

/// One route.
pub struct Route {
    /// Its method. `GET` answers `HEAD` too.
    pub method: Method,
    /// Its path; `{…}` stands for one segment, `{*…}` at its end for all that follow, or none.
    pub path: &'static str,
    /// Query parameters that it takes, besides `owner` where its path names none.
    pub query: &'static [&'static str],
    /// What it does with a body.
    pub body: BodyRule,
    errors: &'static [&'static [ErrorCode]],
    pub(crate) handler: Handler,
}

impl Route {
    /// Who may call it.
    pub fn access(&self) -> Access {
        match self.handler {
            Handler::Server(_) => Access::Anybody,
            Handler::Owner(_) | Handler::Sandbox(_) => Access::Owner,
            Handler::Reader(_) => Access::Reader,
            Handler::Admin(_) => Access::Admin,
            Handler::Keys(_) => Access::Keys,
        }
    }

    /// Whether the route acts for one owner.
    pub fn of_an_owner(&self) -> bool {
        self.access() == Access::Owner
    }

    /// Its path as the API document has it.
    pub fn documented(&self) -> String {
        self.path.replace("{*", "{")
    }

    /// Whether the owner stands in the path.
    pub fn owner_in_path(&self) -> bool {
        self.path.contains("{owner}")
    }

    /// The codes of its errors, besides those of the server as a whole.
    pub fn errors(&self) -> impl Iterator<Item = ErrorCode> {
        let body: &[ErrorCode] = match self.body {
            Ignored => &[],
            Streamed => &[E::UnsupportedMediaType],
            _ => &[E::RequestTooLarge, E::UnsupportedMediaType, E::TooManyRequests],
        };
        let owner: &[ErrorCode] = if self.of_an_owner() {
            &[E::ValidationFailed, E::QuotaExceeded, E::Unavailable]
        } else {
            &[]
        };
        let own = self.errors.iter().copied().chain([body, owner]).flatten().copied();
        let asked: &[ErrorCode] = match self.access() {
            Access::Anybody => &[],
            // Another owner's is not found, whatever it is.
            Access::Owner => &[E::Unauthenticated, E::SandboxNotFound],
            _ => &[E::Unauthenticated],
        };
        own.chain(asked.iter().copied()).chain([E::Forbidden, E::Internal])
    }

    /// The codes with each status that they may have here.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = (u16, ErrorCode)> {
        let usual = self.errors().map(|code| (code.http_status(), code));
        // What adds something may meet a limit that time alone does not lift.
        let adds = self.errors().any(|code| code == E::StorageFull);
        usual.chain(adds.then_some((409, E::QuotaExceeded)))
    }

    /// Whether the route takes this query parameter.
    pub fn takes(&self, parameter: &str) -> bool {
        self.query.contains(&parameter)
            || (parameter == "owner" && self.of_an_owner() && !self.owner_in_path())
    }
}

macro_rules! routes {
    ($($method:ident $path:literal $query:tt $body:ident $(($limit:ident))? [$($errors:ident),*] => $kind:ident $handler:path;)*) => {
        /// Every route.
        pub static ROUTES: &[Route] = &[$(Route {
            method: Method::$method,
            path: $path,
            query: &$query,
            body: $body $(($limit))?,
            errors: &[$($errors),*],
            handler: routes!(@ $kind $handler),
        }),*];
    };
    (@ Server $f:path) => { Handler::Server(|call| Box::pin($f(call))) };
    (@ Owner $f:path) => { Handler::Owner(|call, owner| Box::pin($f(call, owner))) };
    (@ Reader $f:path) => { Handler::Reader(|call| Box::pin($f(call))) };
    (@ Admin $f:path) => { Handler::Admin(|call| Box::pin($f(call))) };
    (@ Keys $f:path) => { Handler::Keys(|call| Box::pin($f(call))) };
    (@ Sandbox $f:path) => { Handler::Sandbox(|call, name| Box::pin($f(call, name))) };
}

use BodyRule::{Ignored, Optional, Required, Streamed};
use ErrorCode as E;

/// Account, application and instance must be there.
const ACCOUNT: &[E] = &[E::NotFound];
/// The sandbox must be there.
const KNOWN: &[E] = &[E::SandboxNotFound];
/// What is written may find the disk full, or a destroy under way.
const WRITE: &[E] = &[E::SandboxDestroyed, E::StorageFull];
/// Settings are held against what the engine offers.
const SETTINGS: &[E] = &[E::SettingsConflict, E::ImageNotFound, E::NotSupported];
/// An instance may have to be started.
const START: &[E] = &[E::ImageNotFound, E::NotSupported, E::InstanceStartFailed, E::MemoryShort];
/// A command may not be what it seems, and its instance may go away.
const COMMAND: &[E] = &[
    E::InstanceStopped,
    E::CommandUnknown,
    E::ArgumentsTooLarge,
    E::CommandNotFound,
    E::CommandNotExecutable,
    E::CwdNotFound,
    E::UserNotFound,
];

/// A path may lead nowhere, or where nothing is touched.
const FILE: &[E] = &[
    E::FileNotFound,
    E::PermissionDenied,
    E::NotDirectory,
    E::FilesystemError,
    E::SandboxDestroyed,
];
/// What is written may be in the way of something, or too much.
const FILE_WRITE: &[E] =
    &[E::FileExists, E::IsDirectory, E::FileTooLarge, E::NoSpace, E::StorageFull];
/// A file is read, and not a directory.
const FILE_READ: &[E] = &[E::IsDirectory, E::RangeNotSatisfiable];
/// There are so many at once.
const TURNS: &[E] = &[E::TooManyRequests];
/// The context must be there, and its turn may not come.
const CONTEXT: &[E] = &[E::SandboxNotFound, E::ContextNotFound, E::SandboxDestroyed];
/// A sandbox has so many and no more.
const MANY: &[E] = &[E::TooManyContexts];
/// A checkpoint's name is its own.
const KEPT: &[E] = &[E::CheckpointExists];
/// The checkpoint must be there.
const NO_CHECKPOINT: &[E] = &[E::CheckpointNotFound];
/// An engine must be there.
const ENGINE: &[E] = &[E::EngineNotInstalled, E::NotSupported];
/// What is kept of it must be whole, of an engine that is there, and can be kept again.
const SAVED: &[E] = &[E::EngineChanged, E::SnapshotCorrupt, E::ExecutionNotSaved];
/// A copy needs what is kept to be there.
const COPIED: &[E] = &[E::SnapshotCorrupt];

/// What is of no owner may be badly asked for as well, and the server may be stopping.
const BAD: &[E] = &[E::ValidationFailed, E::Unavailable];
/// The same for what is written.
const WRITE_ANY: &[E] = &[E::ValidationFailed, E::Unavailable, E::StorageFull];
/// The token must be there.
const TOKEN: &[E] = &[E::TokenNotFound];

routes! {
    GET "/v1/sandboxes" ["prefix", "state", "label", "createdAfter", "createdBefore",
        "activeAfter", "activeBefore", "sort", "limit", "cursor"] Ignored [] => Owner lists::own;
    GET "/v1/admin/sandboxes" ["owner", "prefix", "state", "label", "createdAfter",
        "createdBefore", "activeAfter", "activeBefore", "sort", "limit", "cursor"] Ignored [BAD]
        => Admin lists::all;
    PUT "/v1/sandboxes/{id}" [] Optional(SMALL_BODY) [SETTINGS, WRITE] => Sandbox v1::put;
    PATCH "/v1/sandboxes/{id}" [] Required(SMALL_BODY) [KNOWN, SETTINGS, WRITE] => Sandbox v1::patch;
    GET "/v1/sandboxes/{id}" [] Ignored [KNOWN] => Sandbox v1::info;
    DELETE "/v1/sandboxes/{id}" [] Ignored [] => Sandbox v1::destroy;
    POST "/v1/sandboxes/{id}/start" ["waitMs"] Optional(SMALL_BODY) [START, WRITE] => Sandbox v1::start;
    POST "/v1/sandboxes/{id}/exec" ["waitMs"] Required(EXEC_BODY) [START, COMMAND, WRITE]
        => Sandbox exec::v1;
    POST "/v1/sandboxes/{id}/stop" [] Optional(SMALL_BODY) [KNOWN] => Sandbox v1::stop;
    POST "/v1/sandboxes/{id}/touch" [] Optional(SMALL_BODY) [KNOWN, WRITE] => Sandbox v1::touch;
    GET "/v1/sandboxes/{id}/stops" [] Ignored [KNOWN] => Sandbox v1::stops;
    GET "/v1/sandboxes/{id}/executions" ["limit"] Ignored [KNOWN] => Sandbox v1::executions;
    GET "/v1/sandboxes/{id}/logs" [] Ignored [KNOWN] => Sandbox v1::logs;

    GET "/v1/sandboxes/{id}/files" ["stat", "list", "recursive", "includeHidden"] Ignored
        [KNOWN, FILE, FILE_READ, TURNS] => Sandbox files::root;
    POST "/v1/sandboxes/{id}/files" [] Required(SMALL_BODY) [FILE, FILE_WRITE]
        => Sandbox files::change;
    GET "/v1/sandboxes/{id}/files/{*path}" ["stat", "list", "recursive", "includeHidden"] Ignored
        [KNOWN, FILE, FILE_READ, TURNS] => Sandbox files::get;
    PUT "/v1/sandboxes/{id}/files/{*path}" [] Streamed [FILE, FILE_WRITE] => Sandbox files::put;
    DELETE "/v1/sandboxes/{id}/files/{*path}" ["recursive", "force"] Ignored
        [FILE, FILE_WRITE] => Sandbox files::delete;
    GET "/v1/sandboxes/{id}/archive" ["path"] Ignored [KNOWN, FILE, TURNS] => Sandbox files::pack;
    PUT "/v1/sandboxes/{id}/archive" ["path"] Streamed [FILE, FILE_WRITE, TURNS]
        => Sandbox files::unpack;
    GET "/v1/sandboxes/{id}/watch" ["path"] Ignored [KNOWN, FILE, TURNS] => Sandbox files::watch;

    POST "/v1/sandboxes/{id}/env" [] Required(SMALL_BODY) [WRITE] => Sandbox contexts::set_env;
    POST "/v1/sandboxes/{id}/contexts" [] Required(SMALL_BODY) [ENGINE, MANY, WRITE]
        => Sandbox contexts::create;
    GET "/v1/sandboxes/{id}/contexts" [] Ignored [KNOWN] => Sandbox contexts::list;
    GET "/v1/sandboxes/{id}/contexts/{ctx}" [] Ignored [CONTEXT] => Sandbox contexts::get;
    DELETE "/v1/sandboxes/{id}/contexts/{ctx}" [] Ignored [CONTEXT] => Sandbox contexts::delete;
    POST "/v1/sandboxes/{id}/contexts/{ctx}/execute" [] Required(EXEC_BODY)
        [CONTEXT, TURNS, ENGINE, SAVED, WRITE] => Sandbox code::in_context;
    POST "/v1/sandboxes/{id}/contexts/{ctx}/fork" [] Optional(SMALL_BODY)
        [CONTEXT, TURNS, MANY, COPIED, WRITE] => Sandbox contexts::fork;
    POST "/v1/sandboxes/{id}/contexts/{ctx}/checkpoints" [] Required(SMALL_BODY)
        [CONTEXT, TURNS, KEPT, WRITE] => Sandbox contexts::checkpoint;
    GET "/v1/sandboxes/{id}/contexts/{ctx}/checkpoints" [] Ignored [CONTEXT]
        => Sandbox contexts::checkpoints;
    POST "/v1/sandboxes/{id}/contexts/{ctx}/checkpoints/{checkpoint}/rollback" []
        Optional(SMALL_BODY) [CONTEXT, TURNS, NO_CHECKPOINT, WRITE] => Sandbox contexts::roll_back;
    DELETE "/v1/sandboxes/{id}/contexts/{ctx}/checkpoints/{checkpoint}" [] Ignored
        [CONTEXT, NO_CHECKPOINT] => Sandbox contexts::delete_checkpoint;
    POST "/v1/sandboxes/{id}/execute" [] Required(EXEC_BODY)
        [CONTEXT, TURNS, ENGINE, MANY, SAVED, WRITE] => Sandbox code::in_sandbox;
    POST "/v1/execute" [] Required(EXEC_BODY) [ENGINE] => Owner code::stateless;
    GET "/v1/bindings" [] Ignored [] => Owner code::bindings;
    GET "/v1/admin/engines" [] Ignored [] => Admin code::engines;

    GET "/v1/events" ["after", "sandbox", "type", "limit"] Ignored [] => Owner events::of_owner;
    GET "/v1/admin/events" ["owner", "after", "sandbox", "type", "limit"] Ignored [BAD]
        => Admin events::of_all;
    GET "/v1/admin/instances" ["owner"] Ignored [BAD] => Admin instances::list;
    GET "/v1/admin/webhooks" [] Ignored [] => Admin webhooks::list;
    POST "/v1/admin/webhooks/redeliver" [] Required(SMALL_BODY) [BAD]
        => Admin webhooks::redeliver;

    GET "/users/{owner}/sandboxes" [] Ignored [] => Owner documents::directory;
    GET "/users/{owner}/sandboxes/{session}" [] Ignored [KNOWN] => Sandbox documents::record;
    POST "/users/{owner}/sandboxes/{session}" ["waitMs"] Required(EXEC_BODY) [START, COMMAND, WRITE]
        => Sandbox exec::of_a_user;
    DELETE "/users/{owner}/sandboxes/{session}" [] Ignored [] => Sandbox documents::destroy;

    GET "/sandboxes/{name}" [] Ignored [] => Sandbox documents::own_record;
    POST "/sandboxes/{name}" ["waitMs"] Required(EXEC_BODY) [START, COMMAND, WRITE]
        => Sandbox exec::own;
    DELETE "/sandboxes/{name}" [] Ignored [] => Sandbox documents::own_stop;

    POST "/v1/admin/tokens" [] Required(SMALL_BODY) [WRITE_ANY] => Keys tokens::create;
    GET "/v1/admin/tokens" ["limit", "cursor"] Ignored [BAD] => Keys tokens::list;
    DELETE "/v1/admin/tokens/{token}" [] Ignored [TOKEN, BAD] => Keys tokens::revoke;
    GET "/client/v4/accounts/{account}/containers/applications" ["name", "per_page", "page_token"]
        Ignored [BAD, ACCOUNT] => Reader account::applications;
    GET "/client/v4/accounts/{account}/containers/applications/{application}/instances"
        ["name_prefix", "state", "per_page", "page_token"] Ignored [BAD, ACCOUNT]
        => Reader account::instances;
    GET "/client/v4/accounts/{account}/containers/applications/{application}/instances-v2"
        ["name_prefix", "state", "per_page", "page_token"] Ignored [BAD, ACCOUNT]
        => Reader account::instances_v2;
    GET "/client/v4/accounts/{account}/containers/applications/{application}/instances/{instance}"
        [] Ignored [BAD, ACCOUNT] => Reader account::instance;

    GET "/v1/admin/backup" [] Ignored [WRITE_ANY, TURNS] => Admin backup::get;
    GET "/v1/quotas" [] Ignored [] => Owner quotas::get;
    GET "/metrics" [] Ignored [] => Reader metrics::get;
    GET "/healthz" [] Ignored [] => Server meta::healthz;
    GET "/openapi.json" [] Ignored [] => Server meta::openapi;
}

/// The routes, and an answer to everything else.
pub fn router(app: App) -> axum::Router {
    let mut paths: BTreeMap<&str, Vec<&'static Route>> = BTreeMap::new();
    for route in ROUTES {
        paths.entry(route.path).or_default().push(route);
    }
    let mut router = axum::Router::new();
    for (path, routes) in paths {
        let app = app.clone();
        let routes: std::sync::Arc<[&'static Route]> = routes.into();
        let serve = move |request: Request| dispatch(app.clone(), routes.clone(), request);
        if let Some(bare) = path.strip_suffix(path::WILDCARD) {
            router = router.route(bare, any(serve.clone()));
        }
        router = router.route(path, any(serve));
    }
    router.fallback(move |request: Request| dispatch(app.clone(), [].into(), request))
}
