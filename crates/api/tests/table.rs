//! Walks the table of routes: what holds for all of them.

mod common;

use api::{BodyRule, ROUTES, Route};
use axum::body::Body;
use common::{Bench, request};
use hyper::header;
use std::collections::{BTreeMap, BTreeSet};

/// A path of the route, with these names.
fn path(route: &Route, owner: &str, id: &str) -> String {
    let segment = |s: &str| match s {
        "{owner}" => owner.to_owned(),
        "{ctx}" | "{checkpoint}" | "{token}" => "one".to_owned(),
        s if s.starts_with('{') => id.to_owned(),
        s => s.to_owned(),
    };
    route.path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// Whether the answer goes on until its caller goes.
fn is_endless(route: &Route) -> bool {
    route.path.ends_with("/watch")
}

/// Whether what follows a slash is a path below it.
fn has_paths(path: &str) -> bool {
    ROUTES.iter().any(|r| r.path.strip_suffix("{*path}").is_some_and(|p| path.starts_with(p)))
}

#[tokio::test]
async fn every_route_answers_and_no_other_method_does() {
    let bench = Bench::new().await;
    let mut methods: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for route in ROUTES {
        methods.entry(route.path).or_default().insert(route.method.as_str());
    }
    for route in ROUTES {
        let path = path(route, "ada", "one");
        if is_endless(route) {
            continue;
        }
        let answer = match route.body {
            BodyRule::Required(_) => bench.json(route.method.as_str(), &path, "[").await,
            _ => bench.plain(route.method.as_str(), &path).await,
        };
        let code = match (answer.status.is_success(), answer.account) {
            (true, _) => String::new(),
            (false, false) => answer.json()["code"].as_str().unwrap().to_owned(),
            // There is no instance of this id; the route is there.
            (false, true) => {
                let body = answer.error(404, "NOT_FOUND");
                body["errors"][0]["message"]
                    .as_str()
                    .unwrap()
                    .replace("there is no such route", "NOT_FOUND")
            }
        };
        assert_ne!(code, "NOT_FOUND", "{} {path}", route.method);
        assert_ne!(code, "METHOD_NOT_ALLOWED", "{} {path}", route.method);
        for method in ["GET", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"] {
            if methods[route.path].contains(method) {
                continue;
            }
            let answer = bench.plain(method, &path).await;
            if path.starts_with("/v1/") {
                answer.error(405, "METHOD_NOT_ALLOWED");
                let allow = answer.headers[header::ALLOW].to_str().unwrap();
                let allow: BTreeSet<&str> = allow.split(", ").collect();
                assert_eq!(allow, methods[route.path]);
            } else {
                answer.error(404, "NOT_FOUND");
            }
        }
        if !has_paths(&format!("{}/", route.path)) {
            bench.plain(route.method.as_str(), &format!("{path}/")).await.error(404, "NOT_FOUND");
        }
        bench.plain(route.method.as_str(), &format!("/{path}")).await.error(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn every_route_refuses_strangers() {
    let bench = Bench::new().await;
    for route in ROUTES {
        let path = path(route, "ada", "one");
        for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
            let mut request = request(route.method.as_str(), &path);
            if name == "host" {
                request = hyper::Request::builder().method(route.method.clone()).uri(&path);
            }
            let request = request.extension(api::Listening::Tcp).header(name, value);
            let answer = bench.send(request.body(Body::empty()).unwrap()).await;
            answer.error(403, "FORBIDDEN");
        }
    }
    bench.plain("GET", "/users/ada/sandboxes/one").await.error(404, "SANDBOX_NOT_FOUND");
}

#[tokio::test]
async fn every_name_is_held_against_the_rule() {
    let bench = Bench::new().await;
    let long = "a".repeat(64);
    let bad = [
        "a%2Fb",
        "..%2f",
        "%2e%2e",
        "..",
        ".",
        "%2E",
        "a%00",
        "%ff",
        "a%zz",
        "a%",
        "-a",
        "a-",
        "a%20b",
        "a+b",
        "%C3%A9",
        "%2e%2e%2f%2e%2e%2fetc",
        "a%5cb",
        "a;b",
        "a:b",
        "~a",
        &long,
    ];
    let reserved = ["www", "API", "Admin", "root", "SYSTEM", "cloudflare", "workers", "%61pi"];
    for route in ROUTES.iter().filter(|r| r.of_an_owner()) {
        let field = route.path.split('/').find(|s| s.starts_with('{') && *s != "{owner}");
        let method = route.method.as_str();
        if let Some(field) = field {
            for name in bad.iter().chain(&reserved) {
                let path = path(route, "ada", name);
                let answer = bench.json(method, &path, "{}").await;
                let body = answer.invalid(field.trim_matches(['{', '}']));
                assert!(body["message"].as_str().unwrap().len() > 20, "{body}");
            }
        }
        for name in bad {
            if route.owner_in_path() {
                bench.json(method, &path(route, name, "one"), "{}").await.invalid("owner");
            } else {
                let query = name.replace('%', "%25").replace(['+', ';'], "%2b");
                let path = format!("{}?owner={query}", path(route, "", "one"));
                bench.json(method, &path, "{}").await.invalid("owner");
            }
        }
    }
}

#[tokio::test]
async fn every_body_is_bounded_and_json() {
    let bench = Bench::new().await;
    for route in ROUTES {
        let (BodyRule::Optional(limit) | BodyRule::Required(limit)) = route.body else { continue };
        let (method, path) = (route.method.as_str(), path(route, "ada", "one"));
        let mut large = vec![b' '; limit + 1];
        let answer = bench.json(method, &path, large.clone()).await;
        let body = answer.error(413, "REQUEST_TOO_LARGE");
        assert_eq!(body["context"]["limit"], limit);
        assert!(body["message"].as_str().unwrap().contains(&limit.to_string()));
        large.pop();
        let chunks = futures::stream::iter([large, vec![b'x']].map(Ok::<_, std::io::Error>));
        let request = request(method, &path).header("content-type", "application/json");
        let answer = bench.send(request.body(Body::from_stream(chunks)).unwrap()).await;
        answer.error(413, "REQUEST_TOO_LARGE");
        for bad in ["{", "{}}", "nope", "{'a':1}", "\u{feff}{}", "{\"a\":\"\u{1}\"}"] {
            bench.json(method, &path, bad).await.invalid("body");
        }
        bench.json(method, &path, b"{\"\xff\":1}".to_vec()).await.invalid("body");
        for bad in ["[]", "1", "null", "\"a\"", "[[\"true\"]]"] {
            bench.json(method, &path, bad).await.invalid("body");
        }
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
        bench.json(method, &path, deep).await.invalid("body");
        bench.json(method, &path, "{\"surprise\":1}").await.invalid("surprise");
        let empty = bench.plain(method, &path).await;
        match route.body {
            BodyRule::Required(_) => drop(empty.invalid("body")),
            _ => assert!(empty.status.is_success() || empty.status == 404, "{method} {path}"),
        }
    }
}

#[tokio::test]
async fn every_body_has_its_content_type() {
    let bench = Bench::new().await;
    let json = |body| !matches!(body, BodyRule::Ignored | BodyRule::Streamed);
    for route in ROUTES.iter().filter(|r| json(r.body)) {
        let (method, path) = (route.method.as_str(), path(route, "ada", "one"));
        for kind in [
            "application/x-www-form-urlencoded",
            "text/plain",
            "text/plain; application/json",
            "application/json; charset=latin1",
            "application/jsonp",
            "multipart/form-data",
            "json",
            "application/merge-patch+json",
        ] {
            let request = request(method, &path).header("content-type", kind);
            let answer = bench.send(request.body(Body::from("{}")).unwrap()).await;
            let body = answer.error(415, "UNSUPPORTED_MEDIA_TYPE");
            assert!(body["message"].as_str().unwrap().contains("application/json"), "{body}");
        }
        let zipped = request(method, &path).header("content-encoding", "gzip");
        let zipped = zipped.header("content-type", "application/json");
        let answer = bench.send(zipped.body(Body::from("{}")).unwrap()).await;
        answer.error(415, "UNSUPPORTED_MEDIA_TYPE");
        let bare = bench.send(request(method, &path).body(Body::from("a=b")).unwrap()).await;
        bare.error(415, "UNSUPPORTED_MEDIA_TYPE");
        for kind in ["application/json", "Application/JSON; charset=UTF-8", ""] {
            let mut request = request(method, &path);
            if !kind.is_empty() {
                request = request.header("content-type", kind);
            }
            let answer = bench.send(request.body(Body::from("{\"surprise\":1}")).unwrap()).await;
            answer.invalid("surprise");
        }
    }
}

#[tokio::test]
async fn every_query_is_known() {
    let bench = Bench::new().await;
    for route in ROUTES {
        let (method, path) = (route.method.as_str(), path(route, "ada", "one"));
        let answer = bench.json(method, &format!("{path}?prefx=a"), "{}").await;
        answer.invalid("prefx");
        bench.json(method, &format!("{path}?%ff=a"), "{}").await.invalid("%ff");
        if route.takes("owner") {
            bench.json(method, &format!("{path}?owner=a&owner=a"), "{}").await.invalid("owner");
            bench.json(method, &format!("{path}?owner=%ff"), "{}").await.invalid("owner");
        }
    }
}

#[test]
fn the_document_has_every_route_and_every_status() {
    let document = serde_json::to_value(api::document()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let described: usize = paths.values().map(|p| p.as_object().unwrap().len()).sum();
    assert_eq!(described, ROUTES.len());
    for route in ROUTES {
        let method = route.method.as_str().to_ascii_lowercase();
        let operation = &paths[&route.documented()][&method];
        assert!(operation["description"].as_str().unwrap().len() > 20, "{method} {}", route.path);
        for code in route.errors() {
            let response = &operation["responses"][code.http_status().to_string()];
            let text = response["description"].as_str().unwrap();
            assert!(text.contains(&format!("`{code}`")), "{text}");
        }
        let parameters: Vec<_> = operation["parameters"].as_array().unwrap().iter().collect();
        for segment in route.path.split('/').filter_map(|s| s.strip_prefix('{')) {
            let name = segment.trim_matches(['*', '}']);
            assert!(parameters.iter().any(|p| p["name"] == name && p["in"] == "path"));
        }
        for name in route.query {
            assert!(parameters.iter().any(|p| p["name"] == *name && p["in"] == "query"));
        }
        assert_eq!(operation.get("requestBody").is_some(), has_body(route), "{}", route.path);
    }
    let asks = |r: &&Route| r.access() != api::Access::Anybody;
    for route in ROUTES {
        let method = route.method.as_str().to_ascii_lowercase();
        let security = &paths[&route.documented()][&method]["security"];
        assert_eq!(security.is_null(), !asks(&route), "{}", route.path);
    }
}

/// Whether the document tells of a body; some take one that says nothing.
fn has_body(route: &Route) -> bool {
    route.body != BodyRule::Ignored
        && !["/start", "/touch", "/fork", "/rollback"].iter().any(|e| route.path.ends_with(e))
}
