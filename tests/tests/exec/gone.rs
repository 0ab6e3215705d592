//! Commands whose instance goes away, runs out of memory, or stands still.

use crate::rig::{assert_fine, assert_no_leaks, nap, run, settled, sh, wait_processes};
use e2e::{Server, read_instance};
use serde_json::{Value, json};
use std::path::PathBuf;

#[tokio::test]
async fn a_command_is_told_why_its_instance_went() {
    let server = Server::start().await;
    let nap = nap();
    let ways = [
        ("stop", "by hand", "stopped"),
        ("stop own", "stopped", "stopped"),
        ("destroy", "stopped", "destroyed"),
    ];
    for (round, (way, reason, cause)) in ways.into_iter().enumerate() {
        assert_fine(&server, "s").await;
        let command = run(&server, "s", json!({"argv": ["sleep", &nap]}));
        let end = async {
            wait_processes(&nap, 1).await;
            match way {
                "stop" => server.post("/v1/sandboxes/s/stop", json!({"reason": reason})).await,
                "stop own" => server.delete("/sandboxes/s").await,
                _ => server.delete("/users/local/sandboxes/s").await,
            }
            .expect(204);
        };
        let (answer, ()) = tokio::join!(command, end);
        let error = answer.expect_error(409, "INSTANCE_STOPPED");
        assert_eq!(error["retryable"], false, "it may have run");
        assert_eq!(error["context"], json!({"reason": reason, "cause": cause, "exitCode": null}));
        wait_processes(&nap, 0).await;
        if way != "destroy" {
            let row = settled(&server, "s", 2 * (round + 1)).await.remove(0);
            assert_eq!((&row["status"], &row["exitCode"]), (&json!("unknown"), &Value::Null));
        }
    }
    // A main process that ends by itself, with its code.
    let settings =
        json!({"entrypoint": ["sh", "-c", "while ! test -e end; do sleep 0.05; done; exit 7"]});
    server.put("/v1/sandboxes/m", settings).await.expect(201);
    assert_fine(&server, "m").await;
    let answer =
        run(&server, "m", json!({"argv": ["sh", "-c", format!("touch end; sleep {nap}")]}));
    let error = answer.await.expect_error(409, "INSTANCE_STOPPED");
    assert_eq!(error["context"], json!({"reason": "exited", "cause": "exited", "exitCode": 7}));
}

#[tokio::test]
async fn want_of_memory_is_told() {
    let server = Server::start().await;
    server.put("/v1/sandboxes/s", json!({"memoryMib": 64})).await.expect(201);
    // It keeps all that it reads until a line ends, which never does.
    let result = server.exec("s", &["tail", "/dev/zero"]).await;
    assert_eq!((&result["exitCode"], &result["signal"]), (&json!(137), &json!("SIGKILL")));
    assert_eq!((&result["oomKilled"], &result["timedOut"]), (&json!(true), &json!(false)));
    let row = settled(&server, "s", 1).await.remove(0);
    assert_eq!((&row["oomKilled"], &row["exitCode"]), (&json!(true), &json!(137)));
    // The command is gone, not the instance.
    assert_fine(&server, "s").await;
    let record = server.get("/sandboxes/s").await.expect(200);
    assert_eq!((&record["state"], &record["starts"]), (&json!("running"), &json!(1)));
    // A kill that is somebody's own is not for want of memory.
    let result = sh(&server, "s", "kill -9 $$").await;
    assert_eq!((&result["oomKilled"], &result["exitCode"]), (&json!(false), &json!(137)));
}

/// Freezes all of an instance, as an operator does it; thaws when dropped.
struct Frozen(PathBuf);

impl Frozen {
    fn of(server: &Server, id: &str) -> Self {
        let instance = read_instance(&server.data, &Server::object("local", id)).expect("it runs");
        let v2 = instance["cgroups"]["v2"].as_str().expect("a version 2 group");
        let file = PathBuf::from(v2).join("cgroup.freeze");
        std::fs::write(&file, "1").expect("it can be frozen");
        Self(file)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // It may be gone.
        let _ = std::fs::write(&self.0, "0");
    }
}

#[tokio::test]
async fn a_frozen_instance_holds_up_nobody() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    assert_fine(&server, "t").await;
    let frozen = Frozen::of(&server, "s");
    // What asks no process of the instance answers.
    for path in [
        "/users/local/sandboxes",
        "/users/local/sandboxes/s",
        "/sandboxes/s",
        "/v1/sandboxes",
        "/v1/sandboxes/s",
        "/v1/sandboxes/s/stops",
        "/v1/sandboxes/s/executions",
        "/v1/sandboxes/s/logs",
        "/healthz",
    ] {
        let answer = tokio::time::timeout(crate::rig::SOON, server.get(path)).await;
        answer.expect(path).expect(200);
    }
    assert_eq!(server.get("/sandboxes/s").await.json()["state"], "running");
    server.json("PATCH", "/v1/sandboxes/s", json!({"idleLimitMs": 0})).await.expect(200);
    server.post("/v1/sandboxes/s/touch", Value::Null).await.expect(204);
    assert_fine(&server, "t").await;
    // A command there has its time limit all the same.
    let answer = run(&server, "s", json!({"argv": ["true"], "timeoutMs": 500})).await.expect(200);
    assert_eq!((&answer["exitCode"], &answer["timedOut"]), (&json!(137), &json!(true)));
    // Once it goes on, so do commands that waited.
    let nap = nap();
    let waits = run(&server, "s", json!({"argv": ["sh", "-c", format!("echo {nap}")]}));
    let thaw = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        drop(frozen);
    };
    let (answer, ()) = tokio::join!(waits, thaw);
    assert_eq!(answer.expect(200)["stdout"], format!("{nap}\n"));
    // Frozen ones can be stopped and destroyed.
    let _frozen = Frozen::of(&server, "s");
    server.post("/v1/sandboxes/s/stop", Value::Null).await.expect(204);
    assert_fine(&server, "s").await;
    let _frozen = Frozen::of(&server, "s");
    server.delete("/v1/sandboxes/s").await.expect(204);
    server.get("/v1/sandboxes/s").await.expect_error(404, "SANDBOX_NOT_FOUND");
    assert_fine(&server, "t").await;
}

/// A command that never gets to start is answered, though nobody knows what became of it; and
/// nothing of it begins when its caller has been told.
#[tokio::test]
async fn a_command_that_does_not_start_is_given_up() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    let frozen = Frozen::of(&server, "s");
    let command = run(&server, "s", json!({"argv": ["touch", "/workspace/began"]}));
    let answer = tokio::time::timeout(std::time::Duration::from_secs(200), command).await;
    let error = answer.expect("it is answered").expect_error(500, "COMMAND_UNKNOWN");
    assert_eq!(error["retryable"], false, "it may have run");
    let row = settled(&server, "s", 2).await.remove(0);
    assert_eq!((&row["status"], &row["exitCode"]), (&json!("unknown"), &Value::Null));
    drop(frozen);
    assert_fine(&server, "s").await;
    assert_eq!(sh(&server, "s", "ls").await["stdout"], "");
    assert_no_leaks(&server).await;
}

/// A stop among commands that start: each has a result or is told of the stop, none both, and
/// none goes missing.
#[tokio::test]
async fn a_stop_among_starting_commands() {
    let server = Server::start().await;
    for round in 0..8u64 {
        assert_fine(&server, "s").await;
        let one = |i: u64| {
            let server = &server;
            async move {
                let script = format!("echo {i}; sleep 0.05; exit {i}");
                let answer = run(server, "s", json!({"argv": ["sh", "-c", script]})).await;
                if answer.status == 200 {
                    let result = answer.json();
                    assert_eq!(
                        (&result["exitCode"], &result["stdout"]),
                        (&json!(i), &json!(format!("{i}\n")))
                    );
                } else {
                    let error = answer.expect_error(409, "INSTANCE_STOPPED");
                    assert_eq!(error["context"]["cause"], "stopped", "{error}");
                }
            }
        };
        let stop = async {
            tokio::time::sleep(std::time::Duration::from_millis(round * 8)).await;
            server.post("/v1/sandboxes/s/stop", Value::Null).await.expect(204);
        };
        let commands = futures::future::join_all((0..20).map(one));
        tokio::join!(commands, stop);
    }
    let stops = server.get("/v1/sandboxes/s/stops").await.expect(200);
    let stops = stops.as_array().expect("a list").clone();
    let mut generations: Vec<_> = stops.iter().filter_map(|s| s["generation"].as_u64()).collect();
    generations.dedup();
    assert_eq!(generations.len(), stops.len(), "one stop each");
    assert!(stops.iter().all(|s| s["cause"] == "stopped"), "{stops:?}");
    server.post("/v1/sandboxes/s/stop", Value::Null).await.expect(204);
    assert_no_leaks(&server).await;
}
