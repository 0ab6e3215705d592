//! Two and more at once.

use crate::rig::{
    SOON, assert_every_start_stopped_once, make, nap, record, run, sh, start, stop, stops,
    until_gone,
};
use e2e::{Server, eventually};
use futures::future::join_all;
use serde_json::{Value, json};

#[tokio::test]
async fn fifty_first_commands_start_one_instance() {
    let server = Server::start().await;
    let body = json!({"argv": ["cat", "/proc/sys/kernel/random/boot_id"]});
    let calls = (0..50).map(|_| server.post("/users/ada/sandboxes/new", body.clone()));
    for answer in join_all(calls).await {
        assert_eq!(answer.expect(200)["exitCode"], 0);
    }
    let record = server.get("/users/ada/sandboxes/new").await.expect(200);
    assert_eq!((&record["state"], &record["starts"]), (&json!("running"), &json!(1)));
    let list = server.get("/users/ada/sandboxes").await.expect(200);
    assert_eq!(list, json!([{"session": "new", "running": true}]));
}

#[tokio::test]
async fn ten_deletes_at_once_are_all_done() {
    let server = Server::start().await;
    let nap = nap();
    for round in 1..=5 {
        sh(&server, "a", &format!("sleep {nap} >/dev/null 2>&1 &")).await;
        let deletes = (0..10).map(|_| server.delete("/v1/sandboxes/a"));
        for answer in join_all(deletes).await {
            answer.expect(204);
        }
        server.get("/v1/sandboxes/a").await.expect_error(404, "SANDBOX_NOT_FOUND");
        let stops = stops(&server, "a").await;
        assert_eq!(stops.len(), round);
        assert!(stops.iter().all(|s| s["cause"] == "destroyed" && s["reason"] == "stopped"));
        assert_every_start_stopped_once(&stops);
    }
    until_gone(&nap).await;
}

#[tokio::test]
async fn a_stop_while_commands_start_leaves_none_without_an_answer() {
    let server = Server::start().await;
    for round in 0..5 {
        start(&server, "a").await;
        let commands = (0..20).map(|n| {
            let (server, script) = (&server, format!("sleep 0.0{}; echo {n}", n % 10));
            async move {
                let answer = run(server, "a", &["sh", "-c", &script]).await;
                match answer.status {
                    200 => {
                        let result = answer.json();
                        assert_eq!(result["stdout"], format!("{n}\n"), "{result}");
                        assert_eq!(result["exitCode"], 0, "{result}");
                    }
                    _ => {
                        let error = answer.expect_error(409, "INSTANCE_STOPPED");
                        assert_eq!(error["context"]["reason"], "stopped", "{error}");
                        assert_eq!(error["context"]["cause"], "stopped", "{error}");
                        assert_eq!(error["context"]["exitCode"], Value::Null, "{error}");
                        assert_eq!(error["retryable"], false, "{error}");
                    }
                }
            }
        });
        let stopping = async {
            tokio::time::sleep(std::time::Duration::from_millis(round * 15)).await;
            stop(&server, "a").await;
        };
        tokio::join!(join_all(commands), stopping);
    }
    stop(&server, "a").await;
    let stops = stops(&server, "a").await;
    assert_every_start_stopped_once(&stops);
    assert_eq!(record(&server, "a").await["starts"], stops.len());
}

#[tokio::test]
async fn a_command_right_after_a_stop_starts_anew() {
    let server = Server::start().await;
    server.exec("a", &["touch", "/tmp/old"]).await;
    for n in 1..=100 {
        stop(&server, "a").await;
        let result = sh(&server, "a", "test -e /tmp/old; echo $?; touch /tmp/old").await;
        assert_eq!(result["stdout"], "1\n", "the old instance's root, in round {n}");
    }
    let record = record(&server, "a").await;
    assert_eq!((&record["state"], &record["starts"]), (&json!("running"), &json!(101)));
    assert_eq!(stops(&server, "a").await.len(), 100);
}

#[tokio::test]
async fn a_destroy_tells_a_command_under_way() {
    let server = Server::start().await;
    let nap = nap();
    start(&server, "a").await;
    let argv = ["sleep", nap.as_str()];
    let command = run(&server, "a", &argv);
    let destroy = async {
        eventually("it runs", SOON, || async { (!e2e::processes(&nap).is_empty()).then_some(()) })
            .await;
        server.delete("/v1/sandboxes/a").await.expect(204);
    };
    let (answer, ()) = tokio::join!(command, destroy);
    let error = answer.expect_error(409, "INSTANCE_STOPPED");
    assert_eq!(error["context"]["cause"], "destroyed", "{error}");
    assert!(e2e::processes(&nap).is_empty(), "it lives on");
}

#[tokio::test]
async fn a_failing_start_beside_a_delete_leaves_nothing() {
    let server = Server::start().await;
    for _ in 0..20 {
        make(&server, "bad", json!({"entrypoint": ["/no/such/program"]})).await;
        let (command, delete) =
            tokio::join!(run(&server, "bad", &["true"]), server.delete("/v1/sandboxes/bad"));
        delete.expect(204);
        let code = command.json()["code"].clone();
        let known = ["INSTANCE_START_FAILED", "SANDBOX_DESTROYED"];
        // After the delete it is a new sandbox, without that entrypoint.
        if command.status != 200 {
            assert!(known.iter().any(|k| code == *k), "{}", command.text());
        }
        server.delete("/v1/sandboxes/bad").await.expect(204);
    }
    assert_every_start_stopped_once(&stops(&server, "bad").await);
}
