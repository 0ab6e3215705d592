//! The backstop: what ends an instance when no server is there.

use crate::rig::{SOON, begin_and_freeze, nap, record, sh, stops, until_gone, until_stops};
use e2e::{Builder, Server, eventually};
use serde_json::Value;
use std::time::Duration;

async fn server(inactivity: &str) -> Server {
    Builder::default()
        .args(&["--check-interval", "500ms", "--inactivity-timeout", inactivity])
        .start()
        .await
}

#[tokio::test]
async fn without_a_server_an_instance_ends_by_itself() {
    let mut server = server("2s").await;
    let nap = nap();
    sh(&server, "a", &format!("trap '' TERM; sleep {nap} >/dev/null 2>&1 &")).await;
    server.kill();
    until_gone(&nap).await;
    // Nobody wrote it down yet; the next server does, with the true reason.
    server.restart().await;
    let stop = until_stops(&server, "a", 1).await;
    assert_eq!(stop["reason"], "inactivity timeout");
    assert_eq!(stop["cause"], "inactivity");
    assert_eq!(stop["exitCode"], Value::Null);
    assert_eq!(record(&server, "a").await["state"], "stopped");
    let line =
        eventually("the line of the stop", SOON, || async { server.stop_lines().first().cloned() })
            .await;
    assert_eq!(line["reason"], "inactivity timeout");
    assert_eq!(server.exec("a", &["echo", "again"]).await["stdout"], "again\n");
}

#[tokio::test]
async fn a_server_and_a_command_hold_the_backstop_off() {
    let mut server = server("1500ms").await;
    let nap = nap();
    server.exec("a", &["true"]).await;
    // Longer than the time-out: the server is there.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(record(&server, "a").await["state"], "running");
    let script = format!("sleep 6; : {nap}; exit 4");
    begin_and_freeze(&server, "a", &script, &nap).await;
    server.kill();
    // Until the command has ended, and with it in the end the instance.
    until_gone(&nap).await;
    let object = Server::object("local", "a");
    let exit = server.data.join("run").join(object).join("exit");
    eventually("the instance ends", SOON, || async { exit.exists().then_some(()) }).await;
    server.restart().await;
    let all = server.get("/v1/sandboxes/a/executions").await.expect(200);
    let newest = all[0].clone();
    assert_eq!((&newest["status"], &newest["exitCode"]), (&"exited".into(), &4.into()), "{newest}");
    let stops = stops(&server, "a").await;
    assert_eq!(stops.len(), 1);
    assert_eq!(stops[0]["cause"], "inactivity", "{stops:?}");
}

#[tokio::test]
async fn a_patched_backstop_counts_for_the_running_instance() {
    let mut server = server("1h").await;
    let nap = nap();
    sh(&server, "a", &format!("sleep {nap} >/dev/null 2>&1 &")).await;
    let patch = serde_json::json!({"inactivityTimeoutMs": 1000});
    server.json("PATCH", "/v1/sandboxes/a", patch).await.expect(200);
    server.kill();
    until_gone(&nap).await;
    server.restart().await;
    assert_eq!(until_stops(&server, "a", 1).await["cause"], "inactivity");
}
