//! Walks the table of routes with every kind of caller, over a real server and a real store.

mod common;

use api::{Access, BodyRule, ROUTES, Route};
use common::wire::Server;
use serde_json::{Value, json};
use types::{Scope, TokenRequest};

/// What a server answered.
struct Told {
    status: u16,
    head: String,
    body: Value,
}

impl Told {
    /// Body without what may differ.
    fn same(&self) -> Value {
        let mut body = self.body.clone();
        if let Some(body) = body.as_object_mut() {
            body.remove("timestamp");
        }
        body
    }
}

async fn send(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> Told {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: sandkeep.example\r\nOrigin: https://page.example\r\n\
         Connection: close\r\nContent-Type: application/json\r\n{headers}\
         Content-Length: {length}\r\n\r\n{body}"
    );
    let answer = server.exchange(request.as_bytes()).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut body: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    if path.starts_with("/client/v4") && body["success"] == false {
        // The same codes as numbers, in an envelope.
        let code = match body["errors"][0]["code"].as_u64() {
            Some(1400) => "VALIDATION_FAILED",
            Some(1401) => "UNAUTHENTICATED",
            Some(1403) => "FORBIDDEN",
            _ => "",
        };
        body["code"] = json!(code);
    }
    Told { status, head: head.to_ascii_lowercase(), body }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// Tokens of all kinds.
struct Tokens {
    ada: String,
    bob: String,
    reader: String,
    admin: String,
    revoked: String,
    expired: String,
}

async fn tokens(server: &Server) -> Tokens {
    let keyring = &server.bench.app.keyring;
    let make = async |owner: Option<&str>, scope, expires_in_ms| {
        let owner = owner.map(|o| o.parse().unwrap());
        let request = TokenRequest { owner, scope, expires_in_ms, label: None };
        keyring.create(&request).await.unwrap()
    };
    let revoked = make(Some("ada"), None, None).await;
    keyring.revoke(&revoked.info.id).await.unwrap();
    let expired = make(Some("ada"), None, Some(1)).await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    Tokens {
        ada: make(Some("ada"), None, None).await.token,
        bob: make(Some("bob"), None, None).await.token,
        reader: make(None, Some(Scope::ContainersRead), None).await.token,
        admin: make(None, Some(Scope::Admin), None).await.token,
        revoked: revoked.token,
        expired: expired.token,
    }
}

/// A path of the route that names ada's sandbox `id`, with her as owner where it names one.
fn path(route: &Route, id: &str) -> String {
    let segment = |s: &str| match s {
        "{owner}" => "ada".to_owned(),
        s if s.starts_with('{') => id.to_owned(),
        s => s.to_owned(),
    };
    let path: Vec<_> = route.path.split('/').map(segment).collect();
    let query = if route.takes("owner") { "?owner=ada" } else { "" };
    path.join("/") + query
}

fn body(route: &Route) -> &'static str {
    match route.body {
        BodyRule::Ignored => "",
        _ if route.path.ends_with("/exec") || !route.path.starts_with("/v1") => {
            r#"{"argv":["touch","made"]}"#
        }
        _ => "{}",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_asks_who_calls() {
    let server = Server::new(|_| {}).await;
    let tokens = tokens(&server).await;
    let callers = [
        ("nobody", String::new()),
        ("garbage", bearer("garbage")),
        ("unknown", bearer(&format!("sandkeep_{}", "A".repeat(43)))),
        ("revoked", bearer(&tokens.revoked)),
        ("expired", bearer(&tokens.expired)),
        ("twice", bearer(&tokens.ada) + &bearer(&tokens.ada)),
        ("basic", "Authorization: Basic YWRhOmE=\r\n".to_owned()),
        ("bare", format!("Authorization: {}\r\n", tokens.ada)),
        ("empty", "Authorization: \r\n".to_owned()),
        ("elsewhere", format!("Cookie: token={0}\r\nX-Api-Key: {0}\r\n", tokens.ada)),
    ];
    for route in ROUTES {
        let (method, path) = (route.method.as_str(), path(route, "one"));
        for (who, headers) in &callers {
            let told = send(&server, method, &path, headers, body(route)).await;
            if route.access() == Access::Anybody {
                assert_eq!(told.status, 200, "{who} {method} {path}");
                continue;
            }
            assert_eq!(told.status, 401, "{who} {method} {path}: {}", told.body);
            assert_eq!(told.body["code"], "UNAUTHENTICATED");
            assert!(told.head.contains("\r\nwww-authenticate: bearer\r\n"), "{}", told.head);
            assert!(!told.body.to_string().contains(&tokens.ada), "{}", told.body);
        }
    }
    let made = send(&server, "GET", "/users/ada/sandboxes", &bearer(&tokens.ada), "").await;
    assert_eq!((made.status, made.body), (200, json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_lets_in_whom_it_is_for() {
    let server = Server::new(|_| {}).await;
    let tokens = tokens(&server).await;
    for route in ROUTES {
        let method = route.method.as_str();
        // What gets in is told of the query; nothing else happens.
        let path = path(route, "one");
        let path = format!("{path}{}nonsense=1", if path.contains('?') { '&' } else { '?' });
        let access = route.access();
        let public = access == Access::Anybody;
        for (who, token, enters) in [
            ("ada", &tokens.ada, access == Access::Owner || public),
            ("reader", &tokens.reader, access == Access::Reader || public),
            ("admin", &tokens.admin, true),
        ] {
            let told = send(&server, method, &path, &bearer(token), body(route)).await;
            let expected = if enters { (400, "VALIDATION_FAILED") } else { (403, "FORBIDDEN") };
            let got = (told.status, told.body["code"].as_str().unwrap());
            assert_eq!(got, expected, "{who} {method} {path}");
        }
    }
    let none = send(&server, "GET", "/no/such/route", &bearer(&tokens.ada), "").await;
    assert_eq!((none.status, &none.body["code"]), (404, &json!("NOT_FOUND")));
    let none = send(&server, "GET", "/no/such/route", "", "").await;
    assert_eq!(none.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_owners_is_not_there_on_any_route() {
    let server = Server::new(|_| {}).await;
    let tokens = tokens(&server).await;
    let (ada, bob) = (bearer(&tokens.ada), bearer(&tokens.bob));
    let run = r#"{"argv":["sh","-c","echo kept > file; cat file"]}"#;
    let ran = send(&server, "POST", "/users/ada/sandboxes/one", &ada, run).await;
    assert_eq!((ran.status, &ran.body["stdout"]), (200, &json!("kept\n")));
    let mut before = Value::Null;
    // The end of the command is written a little later.
    loop {
        let now = send(&server, "GET", "/v1/sandboxes/one", &ada, "").await.body;
        if now == std::mem::replace(&mut before, now.clone()) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    // What bob is told of a sandbox of his own that is not there.
    let missing = send(&server, "GET", "/users/bob/sandboxes/one", &bob, "").await;
    assert_eq!((missing.status, &missing.body["code"]), (404, &json!("SANDBOX_NOT_FOUND")));

    for route in ROUTES.iter().filter(|r| r.access() != Access::Anybody) {
        let method = route.method.as_str();
        for id in ["one", "two"] {
            let path = path(route, id);
            let told = send(&server, method, &path, &bob, body(route)).await;
            if !route.of_an_owner() {
                assert_eq!(told.status, 403, "{method} {path}");
                continue;
            }
            assert_eq!((told.status, told.same()), (404, missing.same()), "{method} {path}");
            let head = |told: &Told| {
                let lines = told.head.lines().filter(|l| !l.starts_with("x-request-id: "));
                let lines = lines.filter(|l| !l.starts_with("date: "));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(head(&told), head(&missing), "{method} {path}");
            // By header as well, where the path leaves it open.
            if let Some(bare) = path.strip_suffix("?owner=ada") {
                let headers = format!("{bob}Sandkeep-Owner: ada\r\n");
                let told = send(&server, method, bare, &headers, body(route)).await;
                assert_eq!((told.status, told.same()), (404, missing.same()), "{method} {bare}");
            }
        }
    }
    // Nothing was made, changed or stopped.
    let after = send(&server, "GET", "/v1/sandboxes/one", &ada, "").await.body;
    assert_eq!(after, before);
    for (owner, token) in [("ada", &ada), ("bob", &bob)] {
        let path = format!("/users/{owner}/sandboxes");
        let known = send(&server, "GET", &path, token, "").await.body;
        let expected =
            if owner == "ada" { json!([{"session": "one", "running": true}]) } else { json!([]) };
        assert_eq!(known, expected, "{owner}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_look_alike_are_others() {
    let server = Server::new(|_| {}).await;
    let tokens = tokens(&server).await;
    let ada = bearer(&tokens.ada);
    let run = r#"{"argv":["true"]}"#;
    assert_eq!(send(&server, "POST", "/users/ada/sandboxes/one", &ada, run).await.status, 200);
    for (path, status, code) in [
        ("/users/Ada/sandboxes/one", 404, "SANDBOX_NOT_FOUND"),
        ("/users/ADA/sandboxes", 404, "SANDBOX_NOT_FOUND"),
        ("/users/%61da/sandboxes/One", 404, "SANDBOX_NOT_FOUND"),
        // A Cyrillic letter, a full-width one, a combining mark, a joiner.
        ("/users/%D0%B0da/sandboxes/one", 400, "VALIDATION_FAILED"),
        ("/users/%EF%BD%81da/sandboxes/one", 400, "VALIDATION_FAILED"),
        ("/users/ada%CC%81/sandboxes/one", 400, "VALIDATION_FAILED"),
        ("/users/ad%E2%80%8Da/sandboxes/one", 400, "VALIDATION_FAILED"),
        ("/users/ada%2Fsandboxes/sandboxes/one", 400, "VALIDATION_FAILED"),
        ("/users/bob%2F..%2Fada/sandboxes/one", 400, "VALIDATION_FAILED"),
        ("/users/ada/sandboxes/a%2Fb", 400, "VALIDATION_FAILED"),
        ("/users/ada/sandboxes/..%2F..%2Fbob%2Fsandboxes%2Fone", 400, "VALIDATION_FAILED"),
        ("/users/ada/sandboxes/%2e%2e", 400, "VALIDATION_FAILED"),
    ] {
        let told = send(&server, "GET", path, &ada, "").await;
        assert_eq!((told.status, told.body["code"].as_str().unwrap()), (status, code), "{path}");
    }
    // One's own name in other clothes is one's own name.
    assert_eq!(send(&server, "GET", "/users/%61d%61/sandboxes/one", &ada, "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_path_goes_around_the_question() {
    let server = Server::new(|_| {}).await;
    let tokens = tokens(&server).await;
    let public = ["/healthz", "/openapi.json"];
    for path in [
        "/healthz/../v1/sandboxes",
        "/healthz/..%2fv1/sandboxes",
        "/healthz%2f..%2fv1%2fsandboxes",
        "/healthz/%2e%2e/v1/sandboxes",
        "//healthz",
        "/healthz/",
        "/healthz//",
        "/./healthz",
        "/%2e/healthz",
        "/%68ealthz",
        "/HEALTHZ",
        "/healthz;/v1/sandboxes",
        "/v1/x/../../healthz/../v1/sandboxes",
        "//v1/sandboxes",
        "/v1//sandboxes",
        "/v1/sandboxes/",
        "/v1/sandboxes/../../healthz",
        "/openapi.json/../v1/sandboxes",
        "http://localhost/v1/sandboxes",
        "/v1/sandboxes?x=/healthz",
        "/v1/sandboxes/one/files/../../../../healthz",
    ] {
        let told = send(&server, "GET", path, "", "").await;
        assert_eq!(told.status, 401, "{path}: {}", told.body);
        // With a token they are what they are: not found, or bad names, never another's.
        let told = send(&server, "GET", path, &bearer(&tokens.bob), "").await;
        assert!(matches!(told.status, 200 | 400 | 404), "{path}: {}", told.status);
    }
    for path in public {
        assert_eq!(send(&server, "GET", path, "", "").await.status, 200, "{path}");
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            assert_eq!(send(&server, method, path, "", "").await.status, 401, "{method} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_token_ends_open_mode_and_revocation_counts_at_once() {
    let server = Server::new(|_| {}).await;
    // One connection, kept open all the while.
    let open = b"GET /users/ada/sandboxes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(server.exchange(open).await.starts_with("HTTP/1.1 200"));
    // Open mode does not make tokens.
    let body = r#"{"owner":"ada"}"#;
    let request = common::wire::post("/v1/admin/tokens", "Connection: close\r\n", body);
    assert!(server.exchange(request.as_bytes()).await.starts_with("HTTP/1.1 403"));
    let made = server.bench.json("POST", "/v1/admin/tokens", body).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    let (token, id) = (made["token"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert!(server.exchange(open).await.starts_with("HTTP/1.1 401"));
    assert_eq!(send(&server, "GET", "/v1/sandboxes", &bearer(token), "").await.status, 200);
    let listed = server.bench.plain("GET", "/v1/admin/tokens").await;
    assert!(!String::from_utf8_lossy(&listed.body).contains(token));
    assert_eq!(listed.json()["tokens"][0]["owner"], "ada");
    for _ in 0..2 {
        let path = format!("/v1/admin/tokens/{id}");
        assert_eq!(server.bench.plain("DELETE", &path).await.status, 204);
    }
    let told = send(&server, "GET", "/v1/sandboxes", &bearer(token), "").await;
    assert_eq!(told.status, 401);
    assert!(server.exchange(open).await.starts_with("HTTP/1.1 401"), "not open again");
    for bad in [token, "..", "%2e%2e", "tok_0000000000000000", "%ff"] {
        let gone = server.bench.plain("DELETE", &format!("/v1/admin/tokens/{bad}")).await;
        assert!(matches!(gone.status.as_u16(), 400 | 404), "{bad}: {}", gone.status);
        assert!(!String::from_utf8_lossy(&gone.body).contains(token));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_act_for_anybody_and_make_tokens() {
    let server = Server::new(|_| {}).await;
    let admin = bearer(&tokens(&server).await.admin);
    let run = r#"{"argv":["true"]}"#;
    for owner in ["ada", "bob"] {
        let path = format!("/users/{owner}/sandboxes/one");
        assert_eq!(send(&server, "POST", &path, &admin, run).await.status, 200);
        let headers = format!("{admin}Sandkeep-Owner: {owner}\r\n");
        let told = send(&server, "GET", "/v1/sandboxes/one", &headers, "").await;
        assert_eq!((told.status, &told.body["owner"]), (200, &json!(owner)));
    }
    let made = send(&server, "POST", "/v1/admin/tokens", &admin, r#"{"scope":"admin"}"#).await;
    assert_eq!(made.status, 201, "{}", made.body);
    for (body, field) in [
        ("{}", "owner"),
        (r#"{"owner":"a/b"}"#, "owner"),
        (r#"{"owner":"ada","scope":"admin"}"#, "scope"),
        (r#"{"scope":"root"}"#, "scope"),
        (r#"{"owner":"ada","expiresInMs":0}"#, "expiresInMs"),
        (r#"{"owner":"ada","expiresInMs":-1}"#, "expiresInMs"),
        (r#"{"owner":"ada","label":7}"#, "label"),
    ] {
        let told = send(&server, "POST", "/v1/admin/tokens", &admin, body).await;
        assert_eq!((told.status, &told.body["context"]["field"]), (400, &json!(field)), "{body}");
    }
}
