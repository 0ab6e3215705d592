//! What a restart of the server means for a life: nothing.

use crate::rig::{SOON, info, make, ms, record, run, sh, start, stop, stops, until_stops};
use e2e::{Builder, Server, eventually, read_instance};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_restart_is_no_stop() {
    let mut server = Server::start().await;
    sh(&server, "a", "echo mine > /tmp/marker").await;
    let before = record(&server, "a").await;
    for _ in 0..3 {
        server.kill();
        server.restart().await;
        let now = record(&server, "a").await;
        assert_eq!(now["state"], "running");
        assert_eq!((&now["startedAt"], &now["starts"]), (&before["startedAt"], &json!(1)));
    }
    assert_eq!(sh(&server, "a", "cat /tmp/marker").await["stdout"], "mine\n");
    assert!(stops(&server, "a").await.is_empty());
    assert!(server.stop_lines().is_empty());
    // The adopted one is stopped as any other.
    server.post("/v1/sandboxes/a/stop", json!({"reason": "after all"})).await.expect(204);
    assert_eq!(record(&server, "a").await["reason"], "after all");
}

#[tokio::test]
async fn what_ended_without_a_server_is_told_by_the_next_with_its_code() {
    let mut server = Server::start().await;
    let wait = "while [ ! -e /workspace/go ]; do sleep 0.05; done";
    for (id, end) in [("five", "exit 5"), ("term", "kill -TERM $$"), ("init", "sleep 1000000")] {
        let script = format!("{wait}; {end}");
        make(&server, id, json!({"entrypoint": ["sh", "-c", script]})).await;
        start(&server, id).await;
    }
    let object = |id| server.data.join("run").join(Server::object("local", id));
    let exits: Vec<_> = ["five", "term", "init"].map(|id| object(id).join("exit")).to_vec();
    let instance = read_instance(&server.data, &Server::object("local", "init"));
    let pid = instance.expect("it runs")["pid"].as_i64().expect("a pid") as i32;
    server.kill();
    for id in ["five", "term"] {
        let object = Server::object("local", id);
        let go = server.data.join("sandboxes").join(object).join("workspace/go");
        std::fs::write(go, "").expect("it can be written");
    }
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
    eventually("they end", SOON, || {
        let all = exits.iter().all(|exit| exit.exists());
        async move { all.then_some(()) }
    })
    .await;
    // Long enough to tell the time of the end from that of the finding.
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.restart().await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("after the epoch").as_millis() as i64;
    for (id, code, cause) in
        [("five", 5, "exited"), ("term", 143, "signalled"), ("init", 137, "signalled")]
    {
        let stop = until_stops(&server, id, 1).await;
        assert_eq!(stop["reason"], "exited", "{id}: {stop}");
        assert_eq!((&stop["exitCode"], &stop["cause"]), (&json!(code), &json!(cause)), "{id}");
        assert!(ms(&stop["stoppedAt"]) <= now - 1500, "{id}: {stop} now {now}");
    }
}

#[tokio::test]
async fn settings_and_limits_survive_everything() {
    let mut server = Builder::default().args(&["--idle-limit", "1h"]).start().await;
    let own = json!({
        "idleLimitMs": 7_200_000, "checkIntervalMs": 1234, "inactivityTimeoutMs": 600_000,
        "idleTtlMs": 86_400_000, "pids": 77, "memoryMib": 99, "vcpu": 0.5, "envVars": {"A": "1"},
    });
    let made = make(&server, "a", own).await;
    server.exec("a", &["true"]).await;
    stop(&server, "a").await;
    start(&server, "a").await;
    server.post("/v1/sandboxes/a/touch", json!(null)).await.expect(204);
    server.kill();
    server.restart().await;
    server.exec("a", &["true"]).await;
    server.put("/v1/sandboxes/a", json!({})).await.expect(200);
    let after = info(&server, "a").await;
    assert_eq!(after["settings"], made["settings"]);
    assert_eq!(after["envVars"], made["envVars"]);
    assert_eq!(after["createdAt"], made["createdAt"]);
}

#[tokio::test]
async fn every_stop_of_an_ending_server_is_written() {
    let mut server = Server::start().await;
    for n in 0..12 {
        start(&server, &format!("s{n}")).await;
    }
    server.terminate();
    let mut told = Vec::new();
    eventually("a line of each", SOON, || {
        told.extend(server.stop_lines().iter().map(|l| l["sandbox"].to_string()));
        let all = told.len() >= 12;
        async move { all.then_some(()) }
    })
    .await;
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 12, "{told:?}");
    // And nothing of it is left on the machine.
    let node = std::fs::read_to_string(server.data.join("node-id")).expect("it has a name");
    let name = format!("sandkeep-{}", node.trim());
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").expect("cgroups").flatten();
    let groups = hierarchies.map(|h| h.path().join(&name)).filter(|group| group.exists());
    assert_eq!(groups.collect::<Vec<_>>(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn one_that_stands_still_holds_up_nobody() {
    let server = Server::start().await;
    for id in ["a", "b"] {
        server.exec(id, &["true"]).await;
    }
    let instance = read_instance(&server.data, &Server::object("local", "a")).expect("it runs");
    for key in ["pid", "supervisor_pid"] {
        let pid = instance[key].as_i64().expect("a pid") as i32;
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it runs");
    }
    let list = server.get("/users/local/sandboxes").await.expect(200);
    assert_eq!(list.as_array().map(Vec::len), Some(2));
    assert_eq!(record(&server, "a").await["state"], "running");
    info(&server, "a").await;
    assert_eq!(run(&server, "b", &["echo", "on"]).await.expect(200)["stdout"], "on\n");
    stop(&server, "b").await;
    let pid = instance["supervisor_pid"].as_i64().expect("a pid") as i32;
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("it runs");
    // Init still stands still: that does not save it.
    stop(&server, "a").await;
    assert_eq!(record(&server, "a").await["reason"], "stopped");
}

#[tokio::test]
async fn a_command_that_ended_without_a_server_was_active_until_then_and_no_longer() {
    let mut server = Server::start().await;
    sh(&server, "a", "true").await;
    let (url, http) = (server.url.clone(), server.http.clone());
    let asked = tokio::spawn(async move {
        let body = json!({"argv": ["sh", "-c", "sleep 1; exit 6"]});
        http.post(format!("{url}/v1/sandboxes/a/exec")).json(&body).send().await
    });
    eventually("it runs", SOON, || async {
        let rows = server.get("/v1/sandboxes/a/executions").await.json();
        (rows[0]["status"] == "running").then_some(())
    })
    .await;
    server.kill();
    let _ = asked.await;
    // Longer than the command takes: its end is well before the next server's start.
    tokio::time::sleep(Duration::from_secs(4)).await;
    server.restart().await;
    let row = eventually("its end is told", SOON, || async {
        let rows = server.get("/v1/sandboxes/a/executions").await.json();
        (rows[0]["status"] == "exited").then(|| rows[0].clone())
    })
    .await;
    assert_eq!(row["exitCode"], 6);
    let record = record(&server, "a").await;
    assert_eq!(record["state"], "running");
    assert_eq!(record["lastActivity"], row["endedAt"], "the restart counted as activity");
}
