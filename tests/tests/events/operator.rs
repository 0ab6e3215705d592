//! What an operator sees: metrics, the log, the running instances.

use crate::rig::{SOON, make, start, stop};
use e2e::{Builder, Server, eventually};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The metrics, by name and labels.
async fn metrics(server: &Server) -> (String, BTreeMap<String, f64>) {
    let answer = server.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let kind = answer.headers.iter().find(|(name, _)| name == "content-type").expect("a type");
    assert_eq!(kind.1, "text/plain; version=0.0.4");
    let text = answer.text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let series = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        (name.to_owned(), value.parse().expect("a number"))
    });
    let series = series.collect();
    (text, series)
}

#[tokio::test]
async fn what_happens_is_counted_and_nobody_is_named() {
    let server = Server::start().await;
    let (_, before) = metrics(&server).await;
    assert_eq!(before["sandkeep_instances_running"], 0.0);
    assert_eq!(before["sandkeep_starts_total{result=\"ok\"}"], 0.0);
    assert_eq!(before["sandkeep_stops_total{cause=\"idle\"}"], 0.0);
    for n in 0..5 {
        let id = format!("quite-a-name-{n}");
        server.exec(&id, &["sh", "-c", "exit 3"]).await;
        if n > 0 {
            stop(&server, &id, "secret reason").await;
        }
    }
    // Also one whose caller goes away counts as ended.
    let body = json!({ "argv": ["sleep", "1000"] }).to_string().into_bytes();
    let headers = [("content-type", "application/json")];
    let left = server.send("POST", "/v1/sandboxes/quite-a-name-0/exec", &headers, Some(body));
    let _ = tokio::time::timeout(Duration::from_millis(500), left).await;
    eventually("it has ended", SOON, || async {
        let (_, now) = metrics(&server).await;
        (now["sandkeep_exec_seconds_count"] == 6.0).then_some(())
    })
    .await;
    make(&server, "never", Value::Null).await;
    make(&server, "bad", json!({"entrypoint": ["/no/such/program"]})).await;
    server.post("/v1/sandboxes/bad/start", Value::Null).await.expect(503);
    server.get("/v1/sandboxes/nobody").await.expect(404);
    server.send("BREW", "/v1/sandboxes/nobody", &[], None).await.expect("an answer").expect(405);
    server.get("/no/such/route/as/this").await.expect(404);
    let (text, now) = metrics(&server).await;
    let of = |name: &str| *now.get(name).unwrap_or_else(|| panic!("no {name} in\n{text}"));
    assert_eq!(of("sandkeep_instances_running"), 1.0);
    assert_eq!(of("sandkeep_sandboxes"), 7.0);
    assert_eq!(of("sandkeep_starts_total{result=\"ok\"}"), 5.0);
    assert_eq!(of("sandkeep_starts_total{result=\"failed\"}"), 1.0);
    assert_eq!(of("sandkeep_start_seconds_count"), 5.0);
    assert_eq!(of("sandkeep_stops_total{cause=\"stopped\"}"), 4.0);
    assert_eq!(of("sandkeep_stops_total{cause=\"failed\"}"), 1.0);
    assert_eq!(of("sandkeep_execs_total"), 6.0);
    assert_eq!(of("sandkeep_exec_seconds_count"), 6.0);
    assert!(of("sandkeep_store_commit_seconds_count") >= 10.0);
    let request = |route: &str, method: &str, status: u16| {
        of(&format!(
            "sandkeep_http_requests_total{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}"
        ))
    };
    assert_eq!(request("/v1/sandboxes/{id}/exec", "POST", 200), 5.0);
    assert_eq!(request("/v1/sandboxes/{id}", "GET", 404), 1.0);
    assert_eq!(request("/v1/sandboxes/{id}", "other", 405), 1.0);
    assert_eq!(request("none", "other", 404), 1.0);
    for name in ["quite-a-name", "local", "secret reason", "BREW", "such"] {
        assert!(!text.contains(name), "{name} in\n{text}");
    }
    // Of each metric what it is, and what it means.
    for name in ["sandkeep_starts_total counter", "sandkeep_start_seconds histogram"] {
        assert!(text.contains(&format!("# TYPE {name}")), "{text}");
    }
}

#[tokio::test]
async fn the_log_has_each_request_and_no_secret() {
    let mut server = Builder::default()
        .args(&["--log-format", "json"])
        .env("SANDKEEP_LOG", "debug")
        .start()
        .await;
    let secret = "hush-0123456789";
    make(&server, "a", json!({"envVars": {"KEY": secret}, "env": {"MAIN": secret}})).await;
    let body = json!({"argv": ["echo", "x"], "env": {"OTHER": secret}, "stdin": secret});
    server.post("/v1/sandboxes/a/exec?owner=ada", body).await.expect(200);
    let bearer = format!("Bearer {secret}");
    let headers = [("authorization", bearer.as_str()), ("x-api-key", secret)];
    let answer = server.send("GET", "/v1/sandboxes/a", &headers, None).await.expect("an answer");
    let id = answer.headers.iter().find(|(n, _)| n == "x-request-id").expect("an id").1.clone();
    server.get(&format!("/v1/sandboxes/a?token={secret}")).await.expect(400);
    let body = json!({"envVars": {"KEY": format!("{secret}\u{0}")}});
    server.json("PATCH", "/v1/sandboxes/a", body).await.expect(400);
    start(&server, "a").await;
    server.kill();
    let lines = server.talk();
    assert!(!lines.join("\n").contains(secret), "{lines:#?}");
    let lines: Vec<Value> =
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let answered: Vec<&Value> =
        lines.iter().filter(|l| l["target"] == "request" && l["fields"]["ms"].is_u64()).collect();
    assert!(answered.len() >= 6, "{lines:#?}");
    let one = answered.iter().find(|l| l["span"]["id"] == id).expect("the request's line");
    assert_eq!(one["span"]["route"], "/v1/sandboxes/{id}");
    assert_eq!((&one["span"]["method"], &one["span"]["owner"]), (&json!("GET"), &json!("local")));
    assert_eq!(one["fields"]["status"], answer.status);
    assert!(answered.iter().any(|l| l["span"]["owner"] == "ada"));
}

#[tokio::test]
async fn lines_about_requests_alone_tell_of_which() {
    for filter in ["warn,request=info", "warn,request=warn"] {
        let builder = Builder::default().args(&["--log-format", "json"]);
        let mut server = builder.env("SANDKEEP_LOG", filter).start().await;
        server.get("/v1/sandboxes/a?owner=ada").await.expect(404);
        server.kill();
        let lines = server.talk();
        let lines = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let told: Vec<_> = lines.filter(|line| line["target"] == "request").collect();
        assert_eq!(told.is_empty(), filter.ends_with("=warn"), "{told:#?}");
        assert!(told.iter().all(|line| line["span"]["id"].is_string()), "{told:#?}");
        if let Some(last) = told.last() {
            assert_eq!(last["span"]["route"], "/v1/sandboxes/{id}");
            assert_eq!(last["span"]["owner"], "ada");
        }
    }
}

#[tokio::test]
async fn running_instances_are_shown_with_what_they_use() {
    let server = Server::start().await;
    let busy = json!({"entrypoint": ["sh", "-c", "while :; do :; done"], "vcpu": 0.3});
    make(&server, "busy", busy).await;
    start(&server, "busy").await;
    server.post("/v1/sandboxes/quiet/exec?owner=ada", json!({"argv": ["true"]})).await.expect(200);
    make(&server, "down", Value::Null).await;
    let list = server.get("/v1/admin/instances").await.expect(200);
    let names: Vec<_> = list["instances"].as_array().expect("a list").iter().collect();
    assert_eq!(names.len(), 2);
    let (quiet, busy) = (names[0], names[1]);
    assert_eq!((&quiet["owner"], &quiet["id"]), (&json!("ada"), &json!("quiet")));
    assert_eq!((&busy["owner"], &busy["id"]), (&json!("local"), &json!("busy")));
    assert_eq!((&quiet["commands"], &quiet["generation"]), (&json!(0), &json!(1)));
    assert_eq!(quiet["memoryMib"], 512);
    // What is set now holds for the next one.
    let next = json!({"memoryMib": 64});
    server.json("PATCH", "/v1/sandboxes/quiet?owner=ada", next).await.expect(200);
    let now = server.get("/v1/admin/instances?owner=ada").await.expect(200);
    assert_eq!(now["instances"][0]["memoryMib"], 512);
    assert!(busy["pids"].as_u64() > Some(1) && busy["memoryBytes"].as_u64() > Some(0), "{busy}");
    let of_ada = server.get("/v1/admin/instances?owner=ada").await.expect(200);
    assert_eq!(of_ada["instances"].as_array().expect("a list").len(), 1);
    let top = |args: &[&str]| {
        let output = std::process::Command::new(e2e::binary())
            .args(["top", "--url", &server.url])
            .args(args)
            .env_remove("SANDKEEP_OWNER")
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let told: Value = serde_json::from_str(&top(&["--json"])).expect("JSON");
    assert!(told[1]["cpuPercent"].as_f64() > Some(1.0), "{told}");
    let text = top(&[]);
    assert!(text.starts_with("ada\tquiet\t0.") && text.lines().count() == 2, "{text}");
    assert_eq!(top(&["--owner", "ada"]).lines().count(), 1);
}
