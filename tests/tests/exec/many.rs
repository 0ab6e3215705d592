//! Many commands: each has its own end, and nothing is left of any.

use crate::rig::{SOON, assert_fine, assert_no_leaks, run, settled, sh};
use e2e::{Server, eventually, read_instance};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use std::path::PathBuf;

#[tokio::test]
async fn heavy_five_hundred_at_once_each_with_its_code() {
    let server = Server::start().await;
    server.put("/v1/sandboxes/s", json!({"pids": 4096, "memoryMib": 2048})).await.expect(201);
    assert_fine(&server, "s").await;
    let one = |i: usize| {
        let server = &server;
        async move {
            let body =
                json!({"argv": ["sh", "-c", format!("echo {i}; echo e{i} >&2; exit {}", i % 251)]});
            let result = run(server, "s", body).await.expect(200);
            assert_eq!(result["exitCode"], i % 251, "{i}: {result}");
            assert_eq!(result["stdout"], format!("{i}\n"));
            assert_eq!(result["stderr"], format!("e{i}\n"));
        }
    };
    let mut all: FuturesUnordered<_> = (0..500).map(one).collect();
    while all.next().await.is_some() {}
    let rows = settled(&server, "s", 501).await;
    assert_eq!(rows.len(), 501);
    for row in &rows {
        let script = row["argv"][2].as_str().unwrap_or("exit 0");
        let code = script.rsplit(' ').next().and_then(|c| c.parse::<i64>().ok()).unwrap_or(0);
        assert_eq!((&row["status"], &row["exitCode"]), (&json!("exited"), &json!(code)), "{row}");
    }
    let ids: std::collections::BTreeSet<_> = rows.iter().map(|r| r["id"].to_string()).collect();
    assert_eq!(ids.len(), 501, "ids are unique");
    assert_fine(&server, "s").await;
    let starts = &server.get("/sandboxes/s").await.expect(200)["starts"];
    assert_eq!(starts, 1);
}

#[tokio::test]
async fn first_commands_at_once_start_one_instance() {
    let server = Server::start().await;
    let one = |i: usize| {
        let server = &server;
        async move {
            let body = json!({"argv": ["sh", "-c", format!("echo x >> seen; exit {i}")]});
            assert_eq!(run(server, "s", body).await.expect(200)["exitCode"], i);
        }
    };
    let mut all: FuturesUnordered<_> = (0..50).map(one).collect();
    while all.next().await.is_some() {}
    assert_eq!(sh(&server, "s", "wc -l < seen").await["stdout"], "50\n");
    assert_eq!(server.get("/sandboxes/s").await.expect(200)["starts"], 1);
    assert!(settled(&server, "s", 51).await.iter().all(|e| e["generation"] == 1));
}

#[tokio::test]
async fn orphans_are_reaped() {
    let server = Server::start().await;
    let script =
        "i=0; while [ $i -lt 1000 ]; do sh -c 'sleep 0 & exit'; i=$((i+1)); done; echo all";
    assert_eq!(sh(&server, "s", script).await["stdout"], "all\n");
    // And orphans of commands that ended meanwhile.
    for _ in 0..20 {
        sh(&server, "s", "(setsid sleep 0 &) ; sleep 0 & exit").await;
    }
    eventually("no zombie is left", SOON, || async {
        let script = "cat /proc/[0-9]*/status 2>/dev/null | grep -c '^State:.*Z' || true";
        (sh(&server, "s", script).await["stdout"] == "0\n").then_some(())
    })
    .await;
    // None outside either: the supervisor is the parent of every command.
    let instance = read_instance(&server.data, &Server::object("local", "s")).expect("it runs");
    let supervisor = instance["supervisor_pid"].as_i64().expect("a pid");
    eventually("the supervisor reaps", SOON, || async {
        let path = format!("/proc/{supervisor}/task/{supervisor}/children");
        let children = std::fs::read_to_string(path).expect("it runs");
        // Init is the one that stays.
        (children.split_whitespace().count() == 1).then_some(())
    })
    .await;
}

/// How many descriptors a process has open.
fn descriptors(pid: i64) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count()
}

#[tokio::test]
async fn nothing_is_left_of_two_hundred_commands() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    let object = Server::object("local", "s");
    let instance = read_instance(&server.data, &object).expect("it runs");
    let supervisor = instance["supervisor_pid"].as_i64().expect("a pid");
    let group = PathBuf::from(instance["cgroups"]["v2"].as_str().expect("a group"));
    let run_dir = server.data.join("run").join(&object);
    let commands = |dir: &PathBuf| {
        let names = std::fs::read_dir(dir).expect("it is there").flatten();
        names.filter(|e| e.file_name().to_string_lossy().starts_with('x')).count()
    };
    let pids = [i64::from(server.pid()), supervisor];
    let round = |count: usize| {
        let server = &server;
        async move {
            for i in 0..count {
                let (script, code) = match i % 5 {
                    0 => ("exit 3", 200),
                    1 => ("echo out; echo err >&2", 200),
                    2 => ("kill -9 $$", 200),
                    3 => ("sleep 0 & exit", 200),
                    _ => ("", 422),
                };
                let argv =
                    if code == 200 { json!(["sh", "-c", script]) } else { json!(["no-such"]) };
                run(server, "s", json!({"argv": argv, "stdin": "x"})).await.expect(code);
            }
        }
    };
    round(20).await;
    let quiet = || async {
        let none = commands(&group) == 0 && commands(&run_dir) == 0;
        none.then(|| pids.map(descriptors))
    };
    // Sweeps take some seconds.
    let before = eventually("groups and files go", SOON, quiet).await;
    round(200).await;
    eventually("descriptors, groups and files go", SOON, || async {
        let now = quiet().await?;
        // A connection that the client keeps may differ.
        now.iter().zip(&before).all(|(now, before)| *now <= before + 3).then_some(())
    })
    .await;
    server.post("/v1/sandboxes/s/stop", Value::Null).await.expect(204);
    assert_no_leaks(&server).await;
}

#[tokio::test]
async fn the_history_has_a_command_that_was_answered() {
    let server = Server::start().await;
    for i in 0..40 {
        sh(&server, "s", &format!("exit {i}")).await;
        let rows = server.get("/v1/sandboxes/s/executions?limit=1").await.expect(200);
        assert_eq!(rows[0]["exitCode"], i, "{rows}");
        assert_eq!(rows[0]["status"], "exited", "{rows}");
    }
}
