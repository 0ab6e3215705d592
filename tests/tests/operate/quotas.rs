//! Limits hold exactly, however many ask at once, and what is refused leaves nothing.

use crate::rig::{as_owner, configured, count, quotas, record, run, stop, with_file};
use e2e::{Answer, Server, eventually};
use futures::future::join_all;
use serde_json::{Value, json};

#[track_caller]
fn refused(answer: &Answer, status: u16, what: &str, scope: &str) -> Value {
    let body = answer.expect_error(status, "QUOTA_EXCEEDED");
    assert_eq!(body["context"]["what"], what, "{body}");
    assert_eq!(body["context"]["scope"], scope, "{body}");
    assert_eq!(body["retryable"], status == 429, "{body}");
    let retry = answer.headers.iter().any(|(name, _)| name == "retry-after");
    assert_eq!(retry, status == 429, "{:?}", answer.headers);
    // Nobody is told what others have.
    assert_eq!(body["context"]["current"].is_null(), scope == "machine", "{body}");
    body
}

async fn create(server: &Server, owner: &str, id: &str) -> Answer {
    as_owner(server, owner, "PUT", &format!("/v1/sandboxes/{id}"), json!({})).await
}

#[tokio::test]
async fn fifty_creates_at_once_make_as_many_as_the_limit() {
    let (server, _directory) = configured("[quotas]\nsandboxes = 5\n").await;
    let names: Vec<String> = (0..50).map(|n| format!("s{n}")).collect();
    let answers = join_all(names.iter().map(|name| create(&server, "local", name))).await;
    assert_eq!(count(&answers, 201, 409), 5);
    let body =
        refused(answers.iter().find(|a| a.status == 409).unwrap(), 409, "sandboxes", "owner");
    assert_eq!(body["context"]["limit"], 5);
    assert_eq!(body["context"]["current"], 5);
    assert_eq!(
        server.get("/v1/sandboxes").await.expect(200)["sandboxes"].as_array().unwrap().len(),
        5
    );
    // What is there stays usable, and a place that was given up is free again.
    let there = server.get("/v1/sandboxes").await.json()["sandboxes"][0]["id"].clone();
    let there = there.as_str().unwrap();
    create(&server, "local", there).await.expect(200);
    server.delete(&format!("/v1/sandboxes/{there}")).await.expect(204);
    create(&server, "local", "next").await.expect(201);
    refused(&create(&server, "local", "one-more").await, 409, "sandboxes", "owner");
    // Another owner has its own five.
    create(&server, "ben", "s0").await.expect(201);
    let report = quotas(&server, "local").await;
    assert_eq!((&report["owner"], &report["current"]["sandboxes"]), (&json!("local"), &json!(5)));
    assert_eq!(report["limits"]["sandboxes"], 5);
    assert_eq!(report["limits"]["running"], Value::Null);
}

#[tokio::test]
async fn heavy_fifty_first_commands_at_once_run_in_as_many_sandboxes_as_the_limit() {
    let (server, _directory) = configured("[quotas]\nsandboxes = 5\n").await;
    let names: Vec<String> = (0..50).map(|n| format!("s{n}")).collect();
    let answers = join_all(names.iter().map(|name| run(&server, name, &["true"], ""))).await;
    assert_eq!(count(&answers, 200, 409), 5);
    refused(answers.iter().find(|a| a.status == 409).unwrap(), 409, "sandboxes", "owner");
    // Whoever was refused left nothing behind: no entry, no record.
    for (name, answer) in names.iter().zip(&answers) {
        let status = server.get(&format!("/v1/sandboxes/{name}")).await.status;
        assert_eq!(status, if answer.status == 200 { 200 } else { 404 });
    }
    assert_eq!(quotas(&server, "local").await["current"]["running"], 5);
}

#[tokio::test]
async fn instances_memory_and_cores_are_counted_while_they_run() {
    let (server, _directory) =
        configured("[quotas]\nrunning = 2\nmemory-mib = 300\nvcpu = 1.5\n").await;
    let put = |id: &'static str, settings: Value| {
        let server = &server;
        async move { server.put(&format!("/v1/sandboxes/{id}"), settings).await.expect(201) }
    };
    put("a", json!({ "memoryMib": 100, "vcpu": 0.5 })).await;
    put("b", json!({ "memoryMib": 200, "vcpu": 1.0 })).await;
    put("c", json!({ "memoryMib": 8, "vcpu": 0.01 })).await;
    put("big", json!({ "memoryMib": 301, "vcpu": 0.5 })).await;
    put("fast", json!({ "memoryMib": 8, "vcpu": 2 })).await;
    run(&server, "a", &["true"], "").await.expect(200);
    // More than the limit as a whole: no waiting helps.
    refused(&run(&server, "big", &["true"], "").await, 409, "memoryMib", "owner");
    refused(&run(&server, "fast", &["true"], "").await, 409, "vcpu", "owner");
    run(&server, "b", &["true"], "").await.expect(200);
    let body = refused(&run(&server, "c", &["true"], "").await, 429, "running", "owner");
    assert_eq!((&body["context"]["limit"], &body["context"]["current"]), (&json!(2), &json!(2)));
    let now = &quotas(&server, "local").await["current"];
    assert_eq!(
        (&now["running"], &now["memoryMib"], &now["vcpu"]),
        (&json!(2), &json!(300), &json!(1.5))
    );
    // What runs goes on being usable.
    run(&server, "a", &["true"], "").await.expect(200);
    // A limit that is lowered meanwhile counts from the next start on.
    server.json("PATCH", "/v1/sandboxes/a", json!({ "memoryMib": 8 })).await.expect(200);
    assert_eq!(quotas(&server, "local").await["current"]["memoryMib"], 300);
    stop(&server, "a").await;
    assert_eq!(quotas(&server, "local").await["current"]["memoryMib"], 200);
    run(&server, "c", &["true"], "").await.expect(200);
    assert_eq!(quotas(&server, "local").await["current"]["memoryMib"], 208);
    server.delete("/v1/sandboxes/b").await.expect(204);
    let now = &quotas(&server, "local").await["current"];
    assert_eq!((&now["running"], &now["memoryMib"]), (&json!(1), &json!(8)));
}

#[tokio::test]
async fn the_machine_s_limit_is_for_all_and_tells_nothing_of_others() {
    let toml = "[quotas]\nsandboxes = 10\n[quotas.machine]\nsandboxes = 3\n\
                [quotas.owners.ada]\nsandboxes = 1\n[quotas.owners.eve]\nsandboxes = \"unlimited\"\n";
    let (server, _directory) = configured(toml).await;
    create(&server, "ada", "a").await.expect(201);
    refused(&create(&server, "ada", "b").await, 409, "sandboxes", "owner");
    create(&server, "ben", "a").await.expect(201);
    create(&server, "eve", "a").await.expect(201);
    let body = refused(&create(&server, "eve", "b").await, 409, "sandboxes", "machine");
    assert_eq!(body["context"]["limit"], 3);
    assert_eq!(quotas(&server, "eve").await["limits"]["sandboxes"], Value::Null);
    assert_eq!(quotas(&server, "ben").await["limits"]["sandboxes"], 10);
    assert_eq!(quotas(&server, "ben").await["current"]["sandboxes"], 1);
}

#[tokio::test]
async fn a_failed_start_gives_its_slot_back_and_counts_as_an_attempt() {
    let (server, _directory) =
        configured("[quotas]\nrunning = 1\nrequests-per-second = 0.001\n").await;
    let broken = json!({ "entrypoint": ["/nowhere/at/all"] });
    as_owner(&server, "ada", "PUT", "/v1/sandboxes/x", broken).await.expect(201);
    // The one request of this thousand seconds is used up, whatever comes of it.
    let again = as_owner(&server, "ada", "GET", "/v1/sandboxes/x", Value::Null).await;
    let body = refused(&again, 429, "requestsPerSecond", "owner");
    assert!(body["context"]["retryAfterMs"].as_u64().unwrap() > 1000, "{body}");
    // Not through the administrator's door.
    let (server, _directory) = configured("[quotas]\nrunning = 1\n").await;
    let broken = json!({ "entrypoint": ["/nowhere/at/all"] });
    server.put("/v1/sandboxes/x", broken).await.expect(201);
    for _ in 0..3 {
        assert_eq!(run(&server, "x", &["true"], "").await.status, 503);
        assert_eq!(quotas(&server, "local").await["current"]["running"], 0);
    }
    run(&server, "good", &["true"], "").await.expect(200);
    refused(&run(&server, "x", &["true"], "").await, 429, "running", "owner");
    assert_eq!(record(&server, "x").await["starts"], 3, "a refused start is none");
}

#[tokio::test]
async fn a_server_that_is_killed_leaks_no_slot() {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = with_file(directory.path(), "[quotas]\nrunning = 2\ncontexts = 1\n");
    let mut server = builder.keeps_instances().start().await;
    run(&server, "a", &["true"], "").await.expect(200);
    run(&server, "b", &["true"], "").await.expect(200);
    // One in the middle of its start.
    let url = format!("{}/v1/sandboxes/b/stop", server.url);
    server.http.post(url).send().await.unwrap();
    let starting = server.http.post(format!("{}/v1/sandboxes/c/start", server.url)).send();
    let starting = tokio::spawn(starting);
    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    server.kill();
    let _ = starting.await;
    server.restart().await;
    eventually("the record of c is settled", crate::rig::SOON, || async {
        let now = quotas(&server, "local").await["current"]["running"].as_u64().unwrap();
        let list = server.get("/v1/sandboxes?state=running").await.json();
        (list["sandboxes"].as_array().unwrap().len() as u64 == now).then_some(())
    })
    .await;
    for id in ["a", "b", "c"] {
        server.delete(&format!("/v1/sandboxes/{id}")).await.expect(204);
    }
    let now = &quotas(&server, "local").await["current"];
    assert_eq!(
        (&now["running"], &now["sandboxes"], &now["memoryMib"]),
        (&json!(0), &json!(0), &json!(0))
    );
    run(&server, "d", &["true"], "").await.expect(200);
    run(&server, "e", &["true"], "").await.expect(200);
    refused(&run(&server, "f", &["true"], "").await, 429, "running", "owner");
}

#[tokio::test]
async fn workspaces_count_once_they_were_used_and_can_be_emptied() {
    let (server, _directory) = configured("[quotas]\nworkspace-bytes = \"1MB\"\n").await;
    let path = "/v1/sandboxes/a/files/big";
    let put = |bytes: usize| server.send("PUT", path, &[], Some(vec![7; bytes]));
    let answer = put(1_000_001).await.unwrap();
    let error = &refused(&answer, 409, "workspaceBytes", "owner")["context"];
    assert_eq!((&error["limit"], &error["current"]), (&json!(1_000_000), &json!(0)));
    assert_eq!((&error["errno"], &error["path"]), (&json!("ENOSPC"), &json!("/workspace/big")));
    let told = eventually("the refusal is told", crate::rig::SOON, || async {
        let events = server.get("/v1/events?type=quota.refused&sandbox=a").await.json();
        events["events"].as_array().unwrap().first().cloned()
    })
    .await;
    let wanted = json!({"quota": "workspaceBytes", "limit": 1_000_000, "current": 0});
    assert_eq!(told["data"], wanted);
    server.get("/v1/sandboxes/a/files/big").await.expect_error(404, "FILE_NOT_FOUND");
    put(1_000_000).await.unwrap().expect(200);
    eventually("it is counted", crate::rig::SOON, || async {
        let now = quotas(&server, "local").await["current"]["workspaceBytes"].as_u64().unwrap();
        (now == 1_000_000).then_some(())
    })
    .await;
    let more = server.send("PUT", "/v1/sandboxes/b/files/x", &[], Some(vec![1])).await.unwrap();
    refused(&more, 409, "workspaceBytes", "owner");
    refused(&run(&server, "c", &["true"], "").await, 409, "workspaceBytes", "owner");
    server.delete(path).await.expect(200);
    eventually("there is room again", crate::rig::SOON, || async {
        (run(&server, "c", &["true"], "").await.status == 200).then_some(())
    })
    .await;
    // Also what a command wrote counts, and what was destroyed does not.
    run(&server, "c", &["sh", "-c", "head -c 2000000 /dev/zero > /workspace/x"], "")
        .await
        .expect(200);
    eventually("it is counted", crate::rig::SOON, || async {
        let now = quotas(&server, "local").await["current"]["workspaceBytes"].as_u64().unwrap();
        (now >= 2_000_000).then_some(())
    })
    .await;
    server.delete("/v1/sandboxes/c").await.expect(204);
    assert_eq!(quotas(&server, "local").await["current"]["workspaceBytes"], 0);
}
