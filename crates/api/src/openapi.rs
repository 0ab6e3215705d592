//! The API as an OpenAPI document. What the table of routes knows (names, owners, errors) is
//! added from there, so that the two cannot differ.

use crate::reply::Shape;
use crate::routes::{Access, ROUTES, Route};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use types::{AccountFailure, ErrorBody, ErrorCode};
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, Required, Response, ResponseBuilder};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Sandkeep",
        version = "1",
        description = "Sandboxes on one's own machine: named, durable, each with a Linux instance when a command needs one.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "sandboxes", description = "Sandboxes, their settings and their instances."),
        (name = "commands", description = "Running commands."),
        (name = "files", description = "Files below /workspace."),
        (name = "code", description = "Code contexts: interpreters whose memory is kept."),
        (name = "history", description = "What ran, and why it stopped."),
        (name = "users", description = "Sandboxes by user: adapters on the same sandboxes."),
        (name = "own", description = "The caller's own sandboxes: adapters on the same sandboxes."),
        (name = "tokens", description = "Who may come in."),
        (name = "account", description = "Every sandbox that was ever started, for clients of the Containers API."),
        (name = "server", description = "The server itself."),
    ),
    components(schemas(ErrorBody, ErrorCode, AccountFailure, types::WatchEvent)),
    paths(
        crate::lists::own, crate::lists::all, crate::v1::put, crate::v1::patch, crate::v1::info, crate::v1::destroy,
        crate::v1::start, crate::exec::v1, crate::v1::stop, crate::v1::touch, crate::v1::stops,
        crate::v1::executions, crate::v1::logs,
        crate::files::root, crate::files::change, crate::files::get, crate::files::put,
        crate::files::delete, crate::files::pack, crate::files::unpack, crate::files::watch,
        crate::contexts::set_env, crate::contexts::create, crate::contexts::list,
        crate::contexts::get, crate::contexts::delete, crate::code::in_context,
        crate::contexts::fork, crate::contexts::checkpoint, crate::contexts::checkpoints,
        crate::contexts::roll_back, crate::contexts::delete_checkpoint, crate::code::in_sandbox,
        crate::code::stateless, crate::code::bindings, crate::code::engines,
        crate::events::of_owner, crate::events::of_all,
        crate::instances::list, crate::webhooks::list, crate::webhooks::redeliver,
        crate::documents::directory, crate::documents::record, crate::exec::of_a_user,
        crate::documents::destroy, crate::documents::own_record, crate::exec::own,
        crate::documents::own_stop,
        crate::tokens::create, crate::tokens::list, crate::tokens::revoke,
        crate::account::applications, crate::account::instances, crate::account::instances_v2,
        crate::account::instance,
        crate::metrics::get, crate::meta::healthz, crate::meta::openapi,
        crate::quotas::get, crate::backup::get,
    ),
)]
struct Base;

/// What the document calls tokens.
const BEARER: &str = "bearer";

/// The document.
pub fn document() -> OpenApi {
    let mut document = Base::openapi();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token of `sandkeep token create`, or of the issuer that the server trusts. In open mode none is asked for."))
        .build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(BEARER, SecurityScheme::Http(bearer));
    for route in ROUTES {
        let item = document.paths.paths.get_mut(&route.documented());
        if let Some(operation) = item.and_then(|item| operation(item, route)) {
            describe(route, operation);
        }
    }
    document
}

/// The document as it is checked in and served.
pub(crate) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        // The document holds nothing that JSON cannot.
        document().to_pretty_json().map(|text| text + "\n").unwrap_or_default()
    });
    &TEXT
}

fn operation<'a>(item: &'a mut PathItem, route: &Route) -> Option<&'a mut Operation> {
    let operation = match route.method.as_str() {
        "GET" => &mut item.get,
        "PUT" => &mut item.put,
        "POST" => &mut item.post,
        "PATCH" => &mut item.patch,
        "DELETE" => &mut item.delete,
        _ => return None,
    };
    operation.as_mut()
}

fn describe(route: &Route, operation: &mut Operation) {
    if route.access() != Access::Anybody {
        operation.security = Some(vec![SecurityRequirement::new(BEARER, [""; 0])]);
    }
    let parameters = operation.parameters.get_or_insert_default();
    for name in names_in(route.path).rev() {
        parameters.insert(0, name_parameter(name));
    }
    // What lists of all owners take to choose one is said beside their other filters.
    if route.takes("owner") && !parameters.iter().any(|parameter| parameter.name == "owner") {
        parameters.push(owner_parameter("owner", ParameterIn::Query));
        parameters.push(owner_parameter("Sandkeep-Owner", ParameterIn::Header));
    }
    let mut by_status: BTreeMap<u16, BTreeSet<&str>> = BTreeMap::new();
    for (status, code) in route.statuses() {
        by_status.entry(status).or_default().insert(code.as_str());
    }
    for (status, codes) in by_status {
        let response = error_response(codes, Shape::of(route.path));
        operation.responses.responses.insert(status.to_string(), response.into());
    }
}

fn error_response(codes: BTreeSet<&str>, shape: Shape) -> Response {
    let codes: Vec<String> = codes.into_iter().map(|code| format!("`{code}`")).collect();
    let name = match shape {
        Shape::Own => "ErrorBody",
        Shape::Account => "AccountFailure",
    };
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(name))).build();
    ResponseBuilder::new()
        .description(codes.join(", "))
        .content("application/json", content)
        .build()
}

/// The names of the variable segments of a path.
fn names_in(path: &'static str) -> impl DoubleEndedIterator<Item = &'static str> {
    path.split('/').filter_map(|s| s.strip_prefix('{')?.strip_suffix('}'))
}

fn name_schema() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^[A-Za-z0-9._-]{1,63}$"))
        .min_length(Some(1))
        .max_length(Some(63))
}

fn name_parameter(name: &str) -> Parameter {
    if let Some(name) = name.strip_prefix('*') {
        return path_parameter(name);
    }
    let plain = match name {
        "ctx" => Some("The context's id."),
        "checkpoint" => Some("The checkpoint's name."),
        "token" => Some("The token's id; not its secret."),
        "account" => Some("The account; any where the server is configured with none."),
        "application" => Some("The application; any where the server is configured with none."),
        "instance" => Some("The object id of the sandbox: 64 lower-case hex digits."),
        _ => None,
    };
    if let Some(what) = plain {
        return ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(what))
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .build();
    }
    let what = if name == "owner" { "Whose sandboxes." } else { "The sandbox's id." };
    let rule = "1 to 63 characters from A-Z a-z 0-9 . _ -, no hyphen at either end, not `.` or `..`; percent-decoded once.";
    let reserved = if name == "owner" {
        ""
    } else {
        " Not www, api, admin, root, system, cloudflare or workers, in any case."
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(format!("{what} {rule}{reserved}")))
        .schema(Some(name_schema()))
        .build()
}

fn path_parameter(name: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(
            "The file's path below `/workspace`, slashes as they are, each name percent-decoded to bytes; empty for `/workspace` itself.",
        ))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

fn owner_parameter(name: &str, place: ParameterIn) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(Required::False)
        .description(Some("For whom the caller acts, where it may choose: an administrator, and in open mode everybody; `local` by default. Others act for themselves."))
        .schema(Some(name_schema()))
        .build()
}
