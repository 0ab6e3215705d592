//! Restarts, a server that stood still, and clocks that jump.

use crate::idle::quick;
use crate::rig::{SOON, ms, nap, record, run, stops, until_stops};
use e2e::{Builder, eventually};
use serde_json::Value;
use std::time::{Duration, Instant};

fn wall_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("after the epoch").as_millis() as i64
}

#[tokio::test]
async fn an_overdue_alarm_fires_once_after_a_start() {
    let mut server = quick("2s").await;
    server.exec("a", &["true"]).await;
    server.kill();
    tokio::time::sleep(Duration::from_secs(4)).await;
    server.restart().await;
    let stop = until_stops(&server, "a", 1).await;
    assert_eq!(stop["reason"], "idle");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(stops(&server, "a").await.len(), 1);
    assert_eq!(server.stop_lines().len(), 1);
}

#[tokio::test]
async fn after_a_standstill_requests_count_before_alarms() {
    let server = Builder::default()
        .args(&["--check-interval", "1s", "--inactivity-timeout", "60s", "--idle-limit", "3s"])
        .start()
        .await;
    let nap = nap();
    for id in ["busy", "touched", "idle"] {
        server.exec(id, &["true"]).await;
    }
    let script = format!("sleep 9; echo {nap}");
    let argv = ["sh", "-c", script.as_str()];
    let busy = run(&server, "busy", &argv);
    let rest = async {
        eventually("it runs", SOON, || async { (!e2e::processes(&nap).is_empty()).then_some(()) })
            .await;
        server.signal(rustix::process::Signal::STOP);
        // It waits in the socket until the server goes on.
        let touch = server.post("/v1/sandboxes/touched/touch", Value::Null);
        let go_on = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let at = wall_ms();
            server.signal(rustix::process::Signal::CONT);
            at
        };
        let (touched, went_on) = tokio::join!(touch, go_on);
        touched.expect(204);
        let stop = until_stops(&server, "touched", 1).await;
        let last = ms(&record(&server, "touched").await["lastActivity"]);
        assert!(last >= went_on, "stopped before its request was heard: {stop}");
        assert!(ms(&stop["stoppedAt"]) - last >= 3000, "{stop}");
        let idle = until_stops(&server, "idle", 1).await;
        assert_eq!(idle["reason"], "idle");
    };
    let (busy, ()) = tokio::join!(busy, rest);
    let result = busy.expect(200);
    assert_eq!(result["exitCode"], 0, "{result}");
    assert_eq!(stops(&server, "busy").await.len(), 0, "it was busy");
}

#[tokio::test]
async fn a_jump_of_the_clock_neither_hurries_nor_delays_an_idle_stop() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("clock");
    std::fs::write(&file, "0").expect("it can be written");
    let server = Builder::default()
        .args(&["--check-interval", "1s", "--inactivity-timeout", "60s", "--idle-limit", "4s"])
        .env("SANDKEEP_TEST_CLOCK", file.to_str().expect("text"))
        .start()
        .await;
    for (round, offset) in [(1, "3600000"), (2, "-3600000"), (3, "0")] {
        let begun = Instant::now();
        server.exec("a", &["true"]).await;
        std::fs::write(&file, offset).expect("it can be written");
        let stop = until_stops(&server, "a", round).await;
        let passed = begun.elapsed();
        assert_eq!(stop["reason"], "idle");
        assert!(passed >= Duration::from_secs(4), "{offset}: stopped after {passed:?}");
    }
}

#[tokio::test]
async fn a_jump_of_the_clock_does_not_expire_a_running_sandbox() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("clock");
    std::fs::write(&file, "0").expect("it can be written");
    let server = Builder::default()
        .args(&["--check-interval", "300ms", "--inactivity-timeout", "60s", "--idle-ttl", "30m"])
        .env("SANDKEEP_TEST_CLOCK", file.to_str().expect("text"))
        .start()
        .await;
    server.exec("a", &["touch", "/workspace/f"]).await;
    std::fs::write(&file, "3600000").expect("it can be written");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(stops(&server, "a").await.len(), 0);
    assert_eq!(server.exec("a", &["ls", "/workspace"]).await["stdout"], "f\n");
}
