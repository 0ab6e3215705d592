//! Section 7 of the contract, line by line.

use crate::rig::{destroy, main, make, start, stop};
use e2e::{Server, eventually, read_instance};
use serde_json::{Value, json};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
const ACCOUNT: &str = "/client/v4/accounts/acme/containers/applications";

/// The instances of a page of the second form.
async fn page(server: &Server, query: &str) -> Value {
    let answer = server.get(&format!("{ACCOUNT}/app/instances-v2?{query}")).await.expect(200);
    assert_eq!(answer["success"], true);
    assert_eq!((&answer["errors"], &answer["messages"]), (&json!([]), &json!([])));
    answer
}

async fn items(server: &Server, query: &str) -> Vec<Value> {
    page(server, query).await["result"].as_array().expect("a list").clone()
}

async fn names(server: &Server, query: &str) -> Vec<String> {
    let items = items(server, query).await;
    items.iter().map(|i| i["name"].as_str().expect("a name").to_owned()).collect()
}

/// The state of one, by its object id.
async fn status(server: &Server, owner: &str, id: &str) -> Value {
    let object = Server::object(owner, id);
    let answer = server.get(&format!("{ACCOUNT}/app/instances/{object}")).await.expect(200);
    answer["result"]["status"].clone()
}

async fn until(server: &Server, owner: &str, id: &str, state: &str) -> Value {
    eventually(&format!("{id} is {state}"), SOON, || async {
        let status = status(server, owner, id).await;
        (status["state"] == state).then_some(status)
    })
    .await
}

/// Sandboxes in every state.
async fn fill(server: &Server) {
    start(server, "ada", "runs").await;
    start(server, "ada", "stopped").await;
    stop(server, "ada", "stopped").await;
    start(server, "ada", "gone").await;
    destroy(server, "ada", "gone").await;
    make(server, "ada", "never", json!({})).await;
    make(server, "bob", "failed", json!({"entrypoint": ["/no/such/program"]})).await;
    let path = "/v1/sandboxes/failed/start?owner=bob";
    server.post(path, Value::Null).await.expect_error(503, "INSTANCE_START_FAILED");
    for (id, script) in [("three", "exit 3"), ("zero", "exit 0"), ("killed", "kill -9 $$")] {
        make(server, "bob", id, main(script)).await;
        let _ = server.post(&format!("/v1/sandboxes/{id}/start?owner=bob"), Value::Null).await;
    }
    until(server, "bob", "three", "failed").await;
    until(server, "bob", "zero", "stopped").await;
    until(server, "bob", "killed", "failed").await;
}

const ALL: [&str; 7] =
    ["ada/gone", "ada/runs", "ada/stopped", "bob/failed", "bob/killed", "bob/three", "bob/zero"];

#[tokio::test]
async fn every_one_that_was_started_is_there_with_its_state() {
    let server = Server::start().await;
    fill(&server).await;
    assert_eq!(names(&server, "").await, ALL);
    assert_eq!(names(&server, "state=active").await, ["ada/runs"]);
    let others: Vec<_> = ALL.iter().filter(|n| **n != "ada/runs").copied().collect();
    assert_eq!(names(&server, "state=not-active").await, others);
    assert_eq!(names(&server, "name_prefix=ada/").await, ALL[..3]);
    assert_eq!(names(&server, "name_prefix=Ada/").await, [""; 0]);
    assert_eq!(names(&server, "name_prefix=ada%2Fr").await, ["ada/runs"]);
    assert_eq!(names(&server, "name_prefix=bob/&state=active").await, [""; 0]);

    for (owner, id, state, code) in [
        ("ada", "runs", "running", Value::Null),
        ("ada", "stopped", "stopped", Value::Null),
        ("ada", "gone", "stopped", Value::Null),
        ("bob", "failed", "failed", Value::Null),
        ("bob", "three", "failed", json!(3)),
        ("bob", "zero", "stopped", json!(0)),
        ("bob", "killed", "failed", json!(137)),
    ] {
        let status = status(&server, owner, id).await;
        assert_eq!((&status["state"], &status["exit_code"]), (&json!(state), &code), "{id}");
        assert_eq!(
            status.get("exit_code").is_some(),
            !code.is_null(),
            "absent, not null: {status}"
        );
    }
    // Once destroyed it is stopped, however it ended.
    destroy(&server, "bob", "three").await;
    assert_eq!(status(&server, "bob", "three").await["state"], "stopped");
    // What was never started is not there, and what comes anew is no second item.
    let never = Server::object("ada", "never");
    server.get(&format!("{ACCOUNT}/app/instances/{never}")).await.expect(404);
    make(&server, "ada", "gone", json!({})).await;
    assert_eq!(status(&server, "ada", "gone").await["state"], "stopped");
    start(&server, "ada", "gone").await;
    assert_eq!(names(&server, "").await, ALL);
    assert_eq!(names(&server, "state=active").await, ["ada/gone", "ada/runs"]);
}

#[tokio::test]
async fn an_item_has_its_fields() {
    let server = Server::start().await;
    make(&server, "ada", "one", json!({"idleLimitMs": 0})).await;
    start(&server, "ada", "one").await;
    let record = server.get("/users/ada/sandboxes/one").await.expect(200);
    let iso = |ms: &Value| types::iso8601(ms.as_i64().expect("ms"));
    let info = server.get("/v1/sandboxes/one?owner=ada").await.expect(200);
    let settings = &info["settings"];
    let item = &items(&server, "").await[0];
    let expected = json!({
        "id": Server::object("ada", "one"),
        "application_id": "app",
        "name": "ada/one",
        "image": "host",
        "status": {"state": "running", "updated_at": iso(&record["startedAt"])},
        "started_at": iso(&record["startedAt"]),
        "configuration": {
            "vcpu": settings["vcpu"], "memory": settings["memoryMib"], "disk": settings["diskMb"],
        },
    });
    assert_eq!(*item, expected);
    stop(&server, "ada", "one").await;
    let record = server.get("/users/ada/sandboxes/one").await.expect(200);
    let status = status(&server, "ada", "one").await;
    assert_eq!(status, json!({"state": "stopped", "updated_at": iso(&record["stoppedAt"])}));
    // A sandbox that is gone tells the same of its latest instance.
    destroy(&server, "ada", "one").await;
    let gone = &items(&server, "").await[0];
    assert_eq!(gone["configuration"], expected["configuration"]);
    assert_eq!((&gone["image"], &gone["started_at"]), (&json!("host"), &expected["started_at"]));
}

#[tokio::test]
async fn both_forms_have_pages_and_the_first_has_all() {
    let server = Server::start().await;
    fill(&server).await;
    // The curl of S1, with its header.
    let path = format!("{ACCOUNT}/app/instances?name_prefix=ada/");
    let told = server.send("GET", &path, &[], None).await.expect("an answer").expect(200);
    let listed: Vec<_> =
        told["result"]["instances"].as_array().unwrap().iter().map(|i| &i["name"]).collect();
    assert_eq!(listed, ALL[..3]);
    assert_eq!(told["result_info"], json!({"per_page": 3}));
    for (form, list) in [("instances", "/result/instances"), ("instances-v2", "/result")] {
        for per_page in [1, 2, 3, 7, 1000] {
            let (mut seen, mut token) = (Vec::new(), String::new());
            loop {
                let query = format!("per_page={per_page}{token}");
                let path = format!("{ACCOUNT}/app/{form}?{query}");
                let answer = server.get(&path).await.expect(200);
                let page = answer.pointer(list).and_then(Value::as_array).expect("a list");
                assert_eq!(answer["result_info"]["per_page"], per_page);
                seen.extend(page.iter().map(|i| i["name"].as_str().unwrap().to_owned()));
                match answer["result_info"].get("next_page_token") {
                    Some(next) => {
                        assert_eq!(page.len(), per_page);
                        token = format!("&page_token={}", next.as_str().unwrap());
                    }
                    None => break,
                }
            }
            assert_eq!(seen, ALL, "{form}, {per_page}");
        }
    }
    assert_eq!(page(&server, "").await["result_info"], json!({"per_page": 100}));
    let client = client::Client::new(&server.url, None, None).expect("a URL");
    for per_page in [None, Some(2)] {
        let query = client::InstanceQuery { per_page, ..client::InstanceQuery::default() };
        let all = client.all_instances("acme", "app", query).await.expect("the list");
        assert_eq!(all.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ALL);
    }
}

#[tokio::test]
async fn errors_have_the_envelope_and_name_the_parameter() {
    let server = Server::start().await;
    for id in ["a", "b", "c"] {
        start(&server, "ada", id).await;
    }
    let failed = async |method: &str, path: &str, status: u16, text: &str| {
        let answer = server.json(method, path, Value::Null).await.expect(status);
        assert_eq!((&answer["success"], &answer["result"]), (&json!(false), &Value::Null));
        assert_eq!(answer["messages"], json!([]));
        let errors = answer["errors"].as_array().expect("errors");
        assert_eq!((errors.len(), &errors[0]["code"]), (1, &json!(1000 + status)), "{answer}");
        assert!(errors[0]["message"].as_str().unwrap().contains(text), "{path}: {answer}");
    };
    let v2 = format!("{ACCOUNT}/app/instances-v2");
    let token = page(&server, "per_page=1").await["result_info"]["next_page_token"].clone();
    let token = token.as_str().expect("more");
    for (query, parameter) in [
        ("state=running", "state"),
        ("state=", "state"),
        ("per_page=0", "per_page"),
        ("per_page=1001", "per_page"),
        ("per_page=x", "per_page"),
        ("page_token=", "page_token"),
        ("page_token=x", "page_token"),
        (&format!("page_token={}", &token[1..]), "page_token"),
        (&format!("page_token={token}&state=active"), "page_token"),
        (&format!("page_token={token}&name_prefix=ada/"), "page_token"),
        ("name_prefix=a&name_prefix=a", "name_prefix"),
        ("prefix=a", "prefix"),
        ("name_prefix=%ff", "name_prefix"),
    ] {
        failed("GET", &format!("{v2}?{query}"), 400, parameter).await;
        failed("GET", &format!("{ACCOUNT}/app/instances?{query}"), 400, parameter).await;
    }
    let cursor = server.get("/v1/admin/sandboxes?limit=1&sort=name").await.expect(200);
    let cursor = cursor["nextCursor"].as_str().expect("more");
    failed("GET", &format!("{v2}?page_token={cursor}"), 400, "page_token").await;
    for path in ["", "/", "/x", "/accounts", "/accounts/a/containers/applications/app/instances/"] {
        failed("GET", &format!("/client/v4{path}"), 404, "route").await;
    }
    failed("POST", &v2, 404, "route").await;
    failed("DELETE", &v2, 404, "route").await;
    let object = Server::object("ada", "a");
    for id in ["x", &object[1..], &object.to_uppercase(), &"0".repeat(64)] {
        failed("GET", &format!("{ACCOUNT}/app/instances/{id}"), 404, "instance").await;
    }
    let foreign = server.send("GET", &v2, &[("host", "evil.example")], None).await;
    let foreign = foreign.expect("an answer").expect(403);
    assert_eq!(foreign["errors"][0]["code"], 1403);
    // Beside it the usual form.
    server.get("/client/v5/x").await.expect_error(404, "NOT_FOUND");
    server.get("/client/v4x").await.expect_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_configured_account_is_the_only_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("sandkeep.toml");
    let application = "0e1d2c3b-4a59-4876-8567-abcdef012345";
    let text = format!("[account]\nid = \"acme\"\napplication = \"{application}\"\n");
    std::fs::write(&file, text).expect("written");
    let server = Server::with(&["--config", file.to_str().expect("UTF-8")]).await;
    start(&server, "ada", "one").await;
    let told = server.get(ACCOUNT).await.expect(200);
    assert_eq!(told["result"][0]["id"], application);
    assert_eq!(told["result"][0]["account_id"], "acme");
    let list = |account: &str, app: &str| {
        format!("/client/v4/accounts/{account}/containers/applications/{app}/instances-v2")
    };
    for app in [application, &application.to_uppercase()] {
        let told = server.get(&list("acme", app)).await.expect(200);
        assert_eq!(told["result"][0]["application_id"], *app);
    }
    for (account, app) in
        [("other", application), ("ACME", application), ("acme", "other"), ("acme%2F", application)]
    {
        let told = server.get(&list(account, app)).await.expect(404);
        assert_eq!(told["errors"][0]["code"], 1404);
    }
    server.get("/client/v4/accounts/x/containers/applications").await.expect(404);
    // Unconfigured, any is taken and repeated.
    let server = Server::start().await;
    start(&server, "ada", "one").await;
    let told = server.get(&list("%C3%A9", "a%20b")).await.expect(200);
    assert_eq!(told["result"][0]["application_id"], "a b");
}

#[tokio::test]
async fn a_list_wakes_nobody_and_waits_for_nobody() {
    let server = Server::start().await;
    make(&server, "ada", "frozen", json!({"idleLimitMs": 0})).await;
    start(&server, "ada", "frozen").await;
    start(&server, "ada", "sleeps").await;
    stop(&server, "ada", "sleeps").await;
    let before = server.get("/v1/sandboxes/sleeps?owner=ada").await.expect(200);
    // All processes of the instance, its supervisor above them, stand still.
    let object = Server::object("ada", "frozen");
    let instance = read_instance(&server.data, &object).expect("it runs");
    let pid = |field: &str| {
        let pid = instance[field].as_i64().unwrap_or_else(|| panic!("no {field}: {instance}"));
        rustix::process::Pid::from_raw(pid as i32).expect("a pid")
    };
    let pids = [pid("supervisor_pid"), pid("pid")];
    for pid in &pids {
        rustix::process::kill_process(*pid, rustix::process::Signal::STOP).expect("it lives");
    }
    let lists = [
        "/v1/sandboxes?owner=ada",
        "/v1/admin/sandboxes?sort=-active",
        "/users/ada/sandboxes",
        &format!("{ACCOUNT}/app/instances-v2"),
        &format!("{ACCOUNT}/app/instances/{object}"),
    ];
    for list in lists {
        let answer =
            tokio::time::timeout(SOON, server.get(list)).await.expect("no instance is asked");
        answer.expect(200);
    }
    for pid in &pids {
        rustix::process::kill_process(*pid, rustix::process::Signal::CONT).expect("it lives");
    }
    let after = server.get("/v1/sandboxes/sleeps?owner=ada").await.expect(200);
    assert_eq!(before, after);
}

#[tokio::test]
async fn the_curl_of_the_document_needs_a_reader() {
    let server = Server::start().await;
    for (owner, id) in [("ada", "notes"), ("ada", "tests"), ("bob", "notes")] {
        start(&server, owner, id).await;
    }
    let data = server.data.to_str().expect("UTF-8").to_owned();
    let token = |words: &[&str]| {
        // By the administrator's socket, not by the address.
        let output = std::process::Command::new(e2e::binary())
            .args(["--data", &data, "token", "create"])
            .args(words)
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    };
    let reader = token(&["--scope", "containers:read"]);
    let admin = token(&["--scope", "admin"]);
    let ada = token(&["--owner", "ada"]);
    let curl = |token: &str| {
        let url =
            format!("{}{ACCOUNT}/sandbox-linux-mycontainer/instances?name_prefix=ada/", server.url);
        let header = format!("Authorization: Bearer {token}");
        let output = std::process::Command::new("curl")
            .args(["--silent", "--show-error", &url, "--header", &header])
            .output()
            .expect("curl starts: cargo xtask setup --tests");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    for token in [&reader, &admin] {
        let told = curl(token);
        let names: Vec<_> =
            told["result"]["instances"].as_array().unwrap().iter().map(|i| &i["name"]).collect();
        assert_eq!(names, ["ada/notes", "ada/tests"]);
        assert_eq!(told["result"]["instances"][0]["application_id"], "sandbox-linux-mycontainer");
    }
    for (token, code) in [(&*ada, 1403), ("nonsense", 1401), (&reader[..reader.len() - 1], 1401)] {
        let told = curl(token);
        assert_eq!((&told["success"], &told["errors"][0]["code"]), (&json!(false), &json!(code)));
    }
    // A reader reads this list and nothing else, and the administrator's list needs one.
    let bearer = |token: &str| format!("Bearer {token}");
    for (token, path, status) in [
        (&reader, "/v1/sandboxes?owner=ada", 403),
        (&reader, "/v1/admin/sandboxes", 403),
        (&ada, "/v1/admin/sandboxes", 403),
        (&admin, "/v1/admin/sandboxes", 200),
        (&ada, "/v1/sandboxes", 200),
        (&ada, "/v1/sandboxes?owner=bob", 404),
    ] {
        let headers = [("authorization", &*bearer(token))];
        let answer = server.send("GET", path, &headers, None).await.expect("an answer");
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
}
