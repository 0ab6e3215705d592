//! The walks of the two documents, as they are written there.

use crate::rig::{SOON, keys, ms, record, stops};
use e2e::{Server, eventually};
use serde_json::{Value, json};

async fn list(server: &Server, owner: &str) -> Value {
    server.get(&format!("/users/{owner}/sandboxes")).await.expect(200)
}

async fn command(server: &Server, owner: &str, session: &str) {
    let path = format!("/users/{owner}/sandboxes/{session}");
    let result = server.post(&path, json!({"argv": ["uname", "-s"]})).await.expect(200);
    assert_eq!((&result["stdout"], &result["exitCode"]), (&json!("Linux\n"), &json!(0)));
}

#[tokio::test]
async fn a_users_sandboxes_are_listed() {
    let server = Server::start().await;
    assert_eq!(list(&server, "ada").await, json!([]));
    command(&server, "ada", "notes").await;
    command(&server, "ada", "build").await;
    let both = json!([
        {"session": "notes", "running": true},
        {"session": "build", "running": true},
    ]);
    assert_eq!(list(&server, "ada").await, both);
    assert_eq!(list(&server, "bob").await, json!([]));

    let ada: &[(&str, &str)] = &[("sandkeep-owner", "ada")];
    let stop = server.send("POST", "/v1/sandboxes/notes/stop", ada, None).await.unwrap();
    stop.expect(204);
    // It stays, in its place.
    let one = json!([
        {"session": "notes", "running": false},
        {"session": "build", "running": true},
    ]);
    assert_eq!(list(&server, "ada").await, one);
    // It keeps the time of its first command.
    command(&server, "ada", "notes").await;
    assert_eq!(list(&server, "ada").await, both);

    let notes = "/users/ada/sandboxes/notes";
    assert!(server.delete(notes).await.body.is_empty());
    assert_eq!(list(&server, "ada").await, json!([{"session": "build", "running": true}]));
    server.get(notes).await.expect_error(404, "SANDBOX_NOT_FOUND");
    // After a removal it is new, and so the last.
    command(&server, "ada", "notes").await;
    let turned = json!([
        {"session": "build", "running": true},
        {"session": "notes", "running": true},
    ]);
    assert_eq!(list(&server, "ada").await, turned);
    assert_eq!(server.get(notes).await.expect(200)["starts"], 1);
}

#[tokio::test]
async fn of_one_time_the_name_decides() {
    let server = Server::start().await;
    let puts = (0..120).map(|n| {
        // Names that do not come in the order in which they are sent.
        let path = format!("/v1/sandboxes/s{:03}", n * 37 % 120);
        let server = &server;
        async move { server.put(&path, json!({})).await.expect(201) }
    });
    futures::future::join_all(puts).await;
    let page = server.get("/v1/sandboxes?limit=1000").await.expect(200);
    let rows: Vec<_> = page["sandboxes"].as_array().unwrap().iter().collect();
    let of = |row: &Value| (ms(&row["createdAt"]), row["id"].as_str().unwrap().to_owned());
    let told: Vec<_> = rows.iter().map(|row| of(row)).collect();
    let mut sorted = told.clone();
    sorted.sort();
    assert_eq!(told, sorted);
    let directory = list(&server, "local").await;
    let names: Vec<_> =
        directory.as_array().unwrap().iter().map(|e| e["session"].as_str().unwrap()).collect();
    assert_eq!(names, told.iter().map(|(_, id)| id.as_str()).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_record_tells_why_it_stopped() {
    let server = Server::start().await;
    let path = "/sandboxes/sandbox";
    // Not known: nothing to tell, nothing to stop, nothing made of it.
    assert_eq!(record(&server, "sandbox").await, Value::Null);
    server.delete(path).await.expect(204);
    assert_eq!(record(&server, "sandbox").await, Value::Null);
    server.get("/v1/sandboxes/sandbox").await.expect_error(404, "SANDBOX_NOT_FOUND");
    assert_eq!(list(&server, "local").await, json!([]));

    let result = server.post(path, json!({"argv": ["sh", "-c", "echo hello"]})).await.expect(200);
    assert_eq!(result["stdout"], "hello\n");
    let running = record(&server, "sandbox").await;
    assert_eq!(keys(&running), ["lastActivity", "startedAt", "starts", "state"]);
    assert_eq!(running["state"], "running");
    assert_eq!(running["starts"], 1);
    assert!(ms(&running["lastActivity"]) >= ms(&running["startedAt"]));
    assert_eq!(list(&server, "local").await, json!([{"session": "sandbox", "running": true}]));
    // The end of a command is an activity, and whoever has its answer sees it.
    for _ in 0..10 {
        let before = record(&server, "sandbox").await;
        server.post(path, json!({"argv": ["sleep", "0.1"]})).await.expect(200);
        let after = record(&server, "sandbox").await;
        assert!(ms(&after["lastActivity"]) >= ms(&before["lastActivity"]) + 100, "{after}");
    }

    server.delete(path).await.expect(204);
    let stopped = record(&server, "sandbox").await;
    let all = [
        "cause",
        "exitCode",
        "lastActivity",
        "reason",
        "startedAt",
        "starts",
        "state",
        "stoppedAt",
    ];
    assert_eq!(keys(&stopped), all);
    assert_eq!(stopped["state"], "stopped");
    assert_eq!(stopped["reason"], "stopped");
    assert_eq!(stopped["cause"], "stopped");
    assert_eq!(stopped["exitCode"], Value::Null);
    assert!(ms(&stopped["stoppedAt"]) >= ms(&stopped["startedAt"]));
    // It only stopped: it is listed, and the same object has the same record.
    assert_eq!(list(&server, "local").await, json!([{"session": "sandbox", "running": false}]));
    let same = server.get("/users/local/sandboxes/sandbox").await.expect(200);
    assert_eq!(same, stopped);
    // A second stop changes nothing.
    server.delete(path).await.expect(204);
    assert_eq!(record(&server, "sandbox").await, stopped);
    assert_eq!(stops(&server, "sandbox").await.len(), 1);
    // And it runs again.
    server.post(path, json!({"argv": ["true"]})).await.expect(200);
    let again = record(&server, "sandbox").await;
    assert_eq!((&again["state"], &again["starts"]), (&json!("running"), &json!(2)));
}

#[tokio::test]
async fn what_never_started_has_no_record() {
    let server = Server::start().await;
    server.put("/v1/sandboxes/quiet", json!({})).await.expect(201);
    assert_eq!(record(&server, "quiet").await, Value::Null);
    assert_eq!(server.get("/users/local/sandboxes/quiet").await.expect(200), Value::Null);
    server.delete("/sandboxes/quiet").await.expect(204);
    server.post("/v1/sandboxes/quiet/stop", Value::Null).await.expect(204);
    assert_eq!(record(&server, "quiet").await, Value::Null);
    assert_eq!(stops(&server, "quiet").await, Vec::<Value>::new());
    assert_eq!(list(&server, "local").await, json!([{"session": "quiet", "running": false}]));
    let info = server.get("/v1/sandboxes/quiet").await.expect(200);
    assert_eq!((&info["running"], &info["record"]), (&json!(false), &Value::Null));
}

#[tokio::test]
async fn a_delete_may_be_repeated() {
    let server = Server::start().await;
    server.delete("/users/ada/sandboxes/never").await.expect(204);
    server.get("/users/ada/sandboxes/never").await.expect_error(404, "SANDBOX_NOT_FOUND");
    let ada: &[(&str, &str)] = &[("sandkeep-owner", "ada"), ("content-type", "application/json")];
    let put = server.send("PUT", "/v1/sandboxes/made", ada, Some(b"{}".to_vec())).await.unwrap();
    put.expect(201);
    command(&server, "ada", "ran").await;
    for session in ["made", "ran"] {
        let path = format!("/users/ada/sandboxes/{session}");
        for _ in 0..3 {
            server.delete(&path).await.expect(204);
            server.get(&path).await.expect_error(404, "SANDBOX_NOT_FOUND");
        }
    }
    assert_eq!(list(&server, "ada").await, json!([]));
}

#[tokio::test]
async fn last_activity_is_that_of_commands_not_of_readers() {
    let server = Server::start().await;
    server.exec("a", &["true"]).await;
    // It is written within a second of the command's end.
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    let before = record(&server, "a").await["lastActivity"].clone();
    list(&server, "local").await;
    server.get("/v1/sandboxes").await.expect(200);
    server.get("/v1/sandboxes/a").await.expect(200);
    server.get("/v1/sandboxes/a/stops").await.expect(200);
    server.get("/v1/sandboxes/a/logs").await.expect(200);
    server.get("/v1/sandboxes/a/executions").await.expect(200);
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(record(&server, "a").await["lastActivity"], before);
    server.post("/v1/sandboxes/a/touch", Value::Null).await.expect(204);
    eventually("the touch counts", SOON, || async {
        (ms(&record(&server, "a").await["lastActivity"]) > ms(&before)).then_some(())
    })
    .await;
}
