//! What single requests answer, over a real store.

mod common;

use axum::body::Body;
use common::{Answer, Bench, request};
use serde_json::{Value, json};

const RUN: &str = r#"{"argv":["sh","-c","echo one; exit 7"]}"#;

fn ids(answer: &Answer) -> Vec<String> {
    let body = answer.json();
    let all = body["sandboxes"].as_array().unwrap();
    all.iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_routes_by_user() {
    let bench = Bench::new().await;
    let (all, notes) = ("/users/ada/sandboxes", "/users/ada/sandboxes/notes");
    assert_eq!(bench.plain("GET", all).await.json(), json!([]));
    bench.plain("GET", notes).await.error(404, "SANDBOX_NOT_FOUND");
    assert_eq!(bench.plain("DELETE", notes).await.status, 204);

    let ran = bench.json("POST", notes, RUN).await;
    assert_eq!(ran.status, 200);
    let ran = ran.json();
    assert_eq!((&ran["stdout"], &ran["exitCode"]), (&json!("one\n"), &json!(7)));
    assert_eq!(
        bench.plain("GET", all).await.json(),
        json!([{"session": "notes", "running": true}])
    );
    assert_eq!(bench.plain("GET", notes).await.json()["state"], "running");

    // Known and never started; another user sees nothing of it.
    assert_eq!(bench.plain("PUT", "/v1/sandboxes/later?owner=ada").await.status, 201);
    let later = bench.plain("GET", "/users/ada/sandboxes/later").await;
    assert_eq!((later.status.as_u16(), later.json()), (200, Value::Null));
    bench.plain("GET", "/users/bob/sandboxes/later").await.error(404, "SANDBOX_NOT_FOUND");

    for _ in 0..2 {
        let gone = bench.plain("DELETE", notes).await;
        assert_eq!((gone.status.as_u16(), gone.body.len()), (204, 0));
    }
    bench.plain("GET", notes).await.error(404, "SANDBOX_NOT_FOUND");
    assert_eq!(
        bench.plain("GET", all).await.json(),
        json!([{"session": "later", "running": false}])
    );
}

#[tokio::test]
async fn the_routes_of_ones_own() {
    let bench = Bench::new().await;
    let one = "/sandboxes/one";
    let unknown = bench.plain("GET", one).await;
    assert_eq!((unknown.status.as_u16(), unknown.json()), (200, Value::Null));
    assert_eq!(bench.plain("DELETE", one).await.status, 204);
    assert_eq!(bench.plain("GET", one).await.json(), Value::Null);
    assert_eq!(bench.json("POST", one, RUN).await.json()["exitCode"], 7);
    assert_eq!(bench.plain("DELETE", one).await.status, 204);
    let record = bench.plain("GET", one).await.json();
    assert_eq!((&record["state"], &record["reason"]), (&json!("stopped"), &json!("stopped")));
    // The same object as by user.
    assert_eq!(bench.plain("GET", "/users/local/sandboxes/one").await.json(), record);
    let entries = bench.plain("GET", "/users/local/sandboxes").await.json();
    assert_eq!(entries, json!([{"session": "one", "running": false}]));
}

#[tokio::test]
async fn settings() {
    let bench = Bench::new().await;
    let one = "/v1/sandboxes/one";
    bench.plain("GET", one).await.error(404, "SANDBOX_NOT_FOUND");
    bench.json("PATCH", one, "{}").await.error(404, "SANDBOX_NOT_FOUND");
    let new = bench.json("PUT", one, r#"{"pids":64,"envVars":{"A":"1"}}"#).await;
    assert_eq!(new.status, 201);
    let same = bench.json("PUT", one, r#"{"pids":64}"#).await;
    assert_eq!((same.status.as_u16(), same.json()), (200, new.json()));
    bench.json("PUT", one, r#"{"pids":65}"#).await.error(409, "SETTINGS_CONFLICT");
    bench
        .json("PUT", "/v1/sandboxes/two", r#"{"image":"none"}"#)
        .await
        .error(422, "IMAGE_NOT_FOUND");
    bench.plain("GET", "/v1/sandboxes/two").await.error(404, "SANDBOX_NOT_FOUND");
    let patch = r#"{"pids":65,"envVars":{"A":null,"B":"2"}}"#;
    let info = bench.json("PATCH", one, patch).await.json();
    assert_eq!((&info["settings"]["pids"], &info["envVars"]), (&json!(65), &json!({"B": "2"})));
    assert_eq!(info["contexts"], json!([]));
    assert_eq!(bench.plain("GET", one).await.json()["settings"], info["settings"]);
}

#[tokio::test]
async fn bad_fields_are_named() {
    let bench = Bench::new().await;
    let number = ["1.5", "-1", "1e3", "18446744073709551616", "\"1\"", "true", "[1]", "1e999"];
    for method in ["PUT", "PATCH"] {
        for bad in number {
            let body = format!("{{\"idleLimitMs\":{bad}}}");
            let answer = bench.json(method, "/v1/sandboxes/one", body).await;
            // A number that no JSON reader can hold is bad JSON.
            let field = if bad == "1e999" { "body" } else { "idleLimitMs" };
            answer.invalid(field);
        }
        for (body, field) in [
            (r#"{"image":1}"#, "image"),
            (r#"{"entrypoint":"true"}"#, "entrypoint"),
            (r#"{"entrypoint":["a",1]}"#, "entrypoint[1]"),
            (r#"{"envVars":{"A":1}}"#, "envVars.A"),
            (r#"{"envVars":["A"]}"#, "envVars"),
            (r#"{"envVars":{"1A":"x"}}"#, "envVars"),
            (r#"{"env":{"A":null}}"#, "env.A"),
            (r#"{"env":{"A":"1","A":"2"}}"#, "env.A"),
            (r#"{"pids":8,"pids":8}"#, "pids"),
            (r#"{"enableInternet":"yes"}"#, "enableInternet"),
            (r#"{"idle_limit_ms":1}"#, "idle_limit_ms"),
        ] {
            bench.json(method, "/v1/sandboxes/one", body).await.invalid(field);
        }
    }
    for (body, field) in [
        ("{}", "argv"),
        (r#"{"argv":null}"#, "argv"),
        (r#"{"argv":"uname -s"}"#, "argv"),
        (r#"{"argv":[]}"#, "argv"),
        (r#"{"argv":[""]}"#, "argv"),
        (r#"{"argv":["a",1]}"#, "argv[1]"),
        (r#"{"argv":["a\u0000"]}"#, "argv"),
        (r#"{"argv":["a"],"argv":["b"]}"#, "argv"),
        (r#"{"argv":["a"],"command":"b"}"#, "command"),
        (r#"{"argv":["a"],"env":{"":"x"}}"#, "env"),
        (r#"{"argv":["a"],"env":{"A=B":"x"}}"#, "env"),
        (r#"{"argv":["a"],"env":{"A":7}}"#, "env.A"),
        (r#"{"argv":["a"],"cwd":"relative"}"#, "cwd"),
        (r#"{"argv":["a"],"user":""}"#, "user"),
        (r#"{"argv":["a"],"stderr":"both"}"#, "stderr"),
        (r#"{"argv":["a"],"stderr":null}"#, "stderr"),
        (r#"{"argv":["a"],"stderr":7}"#, "stderr"),
        (r#"{"argv":["a"],"stderr":"combined""#, "body"),
        (r#"{"argv":["a",}"#, "body"),
        (r#"{"argv":["a"],"stdin":7}"#, "stdin"),
        (r#"{"argv":["a"],"stdin":{"base64":"*"}}"#, "stdin.base64"),
        (r#"{"argv":["a"],"stdin":{"base64":"aGk"}}"#, "stdin.base64"),
        (r#"{"argv":["a"],"stdin":{"base64":"aGk=","x":1}}"#, "stdin.x"),
        (r#"{"argv":["a"],"stdin":{}}"#, "stdin.base64"),
        (r#"{"argv":["a"],"stdin":["aGk="]}"#, "stdin"),
        (r#"{"argv":["a"],"timeoutMs":0}"#, "timeoutMs"),
        (r#"{"argv":["a"],"timeoutMs":2.5}"#, "timeoutMs"),
        (r#"{"argv":["a"],"timeoutMs":18446744073709551615}"#, "timeoutMs"),
    ] {
        for path in ["/v1/sandboxes/one/exec", "/users/local/sandboxes/one", "/sandboxes/one"] {
            bench.json("POST", path, body).await.invalid(field);
        }
    }
    assert_eq!(
        bench.plain("PUT", "/v1/sandboxes/one").await.status,
        201,
        "nothing was made before"
    );
    let long = "x".repeat(201);
    for (body, field) in [
        (r#"{"reason":""}"#.to_owned(), "reason"),
        (format!(r#"{{"reason":"{long}"}}"#), "reason"),
        (r#"{"graceMs":-1}"#.to_owned(), "graceMs"),
        (r#"{"graceMs":18446744073709551615}"#.to_owned(), "graceMs"),
    ] {
        bench.json("POST", "/v1/sandboxes/one/stop", body).await.invalid(field);
    }
    // What is wrong is repeated, but not at any length.
    let body = format!(r#"{{"argv":["a"],"timeoutMs":"{}"}}"#, "y".repeat(100_000));
    assert!(bench.json("POST", "/sandboxes/one", body).await.body.len() < 2000);
}

#[tokio::test]
async fn names_of_every_kind() {
    let bench = Bench::new().await;
    let long = "x".repeat(63);
    for id in ["a", "A", "0", "_", "a.b", "..a", "...", "a--b", "apis", &long] {
        let path = format!("/v1/sandboxes/{id}");
        assert_eq!(bench.plain("PUT", &path).await.status, 201, "{id}");
        assert_eq!(bench.plain("GET", &path).await.json()["id"], id);
    }
    // Decoded once, each segment by itself.
    assert_eq!(bench.plain("GET", "/v1/sandboxes/%61").await.json()["id"], "a");
    assert_eq!(bench.plain("GET", "/v1/sandboxes/%61%2e%62").await.json()["id"], "a.b");
    bench.plain("GET", "/v1/sandboxes/%2561").await.invalid("id");
    bench.plain("GET", "/v1%2Fsandboxes/a").await.error(404, "NOT_FOUND");
    bench.plain("GET", "/v1/sandboxe%73/a").await.error(404, "NOT_FOUND");
    for path in [
        "//v1/sandboxes",
        "/v1//sandboxes",
        "/v1/sandboxes//a",
        "/v1/sandboxes/a//exec",
        "/v1/x/../../healthz/../v1/sandboxes",
        "/healthz/",
        "/",
        "/v1",
        "/v2",
        "/client/v4/accounts",
        "/v1/sandboxes/a/b",
        "/users/a",
        "/users",
        "/sandboxes",
        "/%2e%2e/healthz",
    ] {
        bench.plain("GET", path).await.error(404, "NOT_FOUND");
    }
    bench.plain("GET", "/users//sandboxes").await.invalid("owner");
    // Case counts, and owners have no reserved names.
    bench.plain("DELETE", "/v1/sandboxes/a").await;
    assert_eq!(bench.plain("GET", "/v1/sandboxes/A").await.status, 200);
    assert_eq!(bench.plain("PUT", "/v1/sandboxes/a?owner=api").await.status, 201);
    assert_eq!(bench.plain("GET", "/users/api/sandboxes/a").await.status, 200);
}

#[tokio::test]
async fn owners() {
    let bench = Bench::new().await;
    let header = |owner: &str, path: &str| {
        request("PUT", path).header("Sandkeep-Owner", owner).body(Body::empty()).unwrap()
    };
    let owner = |a: &Answer| a.json()["owner"].as_str().unwrap().to_owned();
    assert_eq!(owner(&bench.plain("PUT", "/v1/sandboxes/a").await), "local");
    assert_eq!(owner(&bench.plain("PUT", "/v1/sandboxes/a?owner=bob").await), "bob");
    assert_eq!(owner(&bench.send(header("ada", "/v1/sandboxes/a")).await), "ada");
    assert_eq!(owner(&bench.send(header("ada", "/v1/sandboxes/a?owner=ada")).await), "ada");
    bench.send(header("ada", "/v1/sandboxes/a?owner=bob")).await.invalid("owner");
    bench.send(header("a/b", "/v1/sandboxes/a")).await.invalid("owner");
    bench.send(header("", "/v1/sandboxes/a")).await.invalid("owner");
    bench.plain("PUT", "/v1/sandboxes/a?owner=").await.invalid("owner");
    // The path has the last word.
    let by_path = request("GET", "/users/bob/sandboxes").header("Sandkeep-Owner", "ada");
    assert_eq!(bench.send(by_path.body(Body::empty()).unwrap()).await.status, 200);
    bench.plain("GET", "/users/bob/sandboxes?owner=ada").await.invalid("owner");
}

#[tokio::test]
async fn pages() {
    let bench = Bench::new().await;
    for id in ["c1", "c2", "d1", "c3"] {
        bench.plain("PUT", &format!("/v1/sandboxes/{id}")).await;
        // Those of one millisecond are ordered by name.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    bench.plain("POST", "/v1/sandboxes/c2/start").await;
    let list = "/v1/sandboxes";
    assert_eq!(ids(&bench.plain("GET", list).await), ["c1", "c2", "d1", "c3"]);
    assert_eq!(ids(&bench.plain("GET", "/v1/sandboxes?prefix=c").await), ["c1", "c2", "c3"]);
    assert_eq!(ids(&bench.plain("GET", "/v1/sandboxes?prefix=C").await), [""; 0]);
    assert_eq!(ids(&bench.plain("GET", "/v1/sandboxes?state=running&prefix=c").await), ["c2"]);
    let mut seen = Vec::new();
    let mut path = "/v1/sandboxes?limit=3".to_owned();
    loop {
        let page = bench.plain("GET", &path).await;
        seen.extend(ids(&page));
        match page.json()["nextCursor"].as_str() {
            None => break,
            Some(cursor) => path = format!("/v1/sandboxes?limit=3&cursor={cursor}"),
        }
    }
    assert_eq!(seen, ["c1", "c2", "d1", "c3"]);
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-1", "limit"),
        ("limit=%2b1", "limit"),
        ("limit=", "limit"),
        ("limit=1e2", "limit"),
        ("limit=9999999999999", "limit"),
        ("state=idle", "state"),
        ("state=Running", "state"),
        ("cursor=zzz", "cursor"),
        ("cursor=", "cursor"),
    ] {
        bench.plain("GET", &format!("{list}?{query}")).await.invalid(field);
    }
    bench.plain("GET", "/v1/sandboxes/c1/executions?limit=1001").await.invalid("limit");
}

#[tokio::test]
async fn a_life() {
    let bench = Bench::new().await;
    let one = |rest: &str| format!("/v1/sandboxes/one{rest}");
    for rest in ["/stop", "/touch"] {
        bench.plain("POST", &one(rest)).await.error(404, "SANDBOX_NOT_FOUND");
    }
    for rest in ["/stops", "/executions", "/logs"] {
        bench.plain("GET", &one(rest)).await.error(404, "SANDBOX_NOT_FOUND");
    }
    assert_eq!(bench.plain("POST", &one("/start")).await.json()["running"], true);
    assert_eq!(bench.json("POST", &one("/start"), "{}").await.status, 200);
    assert_eq!(bench.plain("POST", &one("/touch")).await.status, 204);
    assert_eq!(bench.json("POST", &one("/exec"), RUN).await.json()["stdout"], "one\n");
    let lost = bench.json("POST", &one("/exec"), r#"{"argv":["/no/such"]}"#).await;
    lost.error(422, "COMMAND_NOT_FOUND");
    assert_eq!(bench.json("POST", &one("/stop"), r#"{"reason":"enough"}"#).await.status, 204);
    assert_eq!(bench.plain("POST", &one("/stop")).await.status, 204);
    let stops = bench.plain("GET", &one("/stops")).await.json();
    assert_eq!(stops[0]["reason"], "enough");
    assert_eq!(stops.as_array().unwrap().len(), 1);
    let executions = bench.plain("GET", &one("/executions?limit=1")).await.json();
    assert_eq!(executions[0]["argv"][0], "sh");
    let logs = bench.plain("GET", &one("/logs")).await;
    assert_eq!(logs.headers["content-type"], "application/octet-stream");
    assert_eq!(logs.body, b"main\xff");
    assert_eq!(bench.plain("DELETE", &one("")).await.status, 204);
    assert_eq!(bench.plain("GET", &one("/stops")).await.json()[0]["reason"], "enough");
}

#[tokio::test]
async fn a_failed_start_tells_no_path_of_the_host() {
    let bench = Bench::new().await;
    let failed = bench.json("POST", "/sandboxes/broken", RUN).await;
    let body = failed.error(503, "INSTANCE_START_FAILED");
    assert_eq!(body["retryable"], true);
    let text = String::from_utf8(failed.body).unwrap();
    assert!(!text.contains(bench.path("").to_str().unwrap()), "{text}");
}

#[tokio::test]
async fn a_stream_of_events() {
    let bench = Bench::new().await;
    for accept in [
        "application/x-ndjson",
        "text/html, Application/X-NDJSON;q=0.5",
        "application/json;q=0.5, application/x-ndjson",
    ] {
        let request = request("POST", "/sandboxes/one").header("accept", accept);
        let request = request.header("content-type", "application/json");
        let answer = bench.send(request.body(Body::from(RUN)).unwrap()).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.headers["content-type"], "application/x-ndjson");
        let text = String::from_utf8(answer.body).unwrap();
        let events: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let kinds: Vec<_> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["start", "stdout", "exit"]);
        assert!(events.iter().enumerate().all(|(i, e)| e["seq"] == i));
        assert_eq!((&events[1]["data"], &events[2]["exitCode"]), (&json!("one\n"), &json!(7)));
    }
    for accept in [
        "application/json",
        "*/*",
        "application/x-ndjson;q=0",
        "application/json, application/x-ndjson;q=0.5",
        "application/x-ndjson;q=0.2, application/json;q=0.3",
    ] {
        let request = request("POST", "/sandboxes/one").header("accept", accept);
        let answer = bench.send(request.body(Body::from(RUN)).unwrap()).await;
        assert_eq!(answer.json()["exitCode"], 7);
    }
    // An error before the start is an ordinary one.
    for (body, status) in [("{}", 400), (r#"{"argv":["/no/such"]}"#, 422)] {
        let request = request("POST", "/sandboxes/one").header("accept", "application/x-ndjson");
        let answer = bench.send(request.body(Body::from(body)).unwrap()).await;
        assert_eq!(answer.status, status);
        answer.error(status, answer.json()["code"].as_str().unwrap());
    }
}

#[tokio::test]
async fn the_server_itself() {
    let bench = Bench::new().await;
    let health = bench.plain("GET", "/healthz").await;
    assert_eq!(health.json()["status"], "ok");
    assert_eq!(health.headers["cache-control"], "no-store");
    let head = bench.plain("HEAD", "/healthz").await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    let document = bench.plain("GET", "/openapi.json").await;
    assert_eq!(document.json(), serde_json::to_value(api::document()).unwrap());
}
