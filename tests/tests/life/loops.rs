//! Starts, stops and deletes in loops: what must hold whatever the order.

use crate::rig::{
    SOON, assert_every_start_stopped_once, nap, record, run, start, stop, stops, until_gone,
};
use e2e::{Server, eventually, processes};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test]
async fn heavy_start_stop_delete_in_any_order() {
    let server = Server::start().await;
    let nap = nap();
    let script = format!("sleep {nap} >/dev/null 2>&1 & echo done");
    let worker = |seed: u64| {
        let (server, script) = (&server, script.as_str());
        async move {
            let mut state = seed;
            for _ in 0..50 {
                // A small generator: the same order in every run, as far as threads allow.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                match (state >> 33) % 4 {
                    0 => {
                        let path = "/v1/sandboxes/a/start";
                        allowed(&server.post(path, Value::Null).await, &[200]);
                    }
                    1 => {
                        let answer = run(server, "a", &["sh", "-c", script]).await;
                        allowed(&answer, &[200]);
                        if answer.status == 200 {
                            assert_eq!(answer.json()["stdout"], "done\n");
                        }
                    }
                    2 => {
                        let path = "/v1/sandboxes/a/stop";
                        allowed(&server.post(path, Value::Null).await, &[204, 404]);
                    }
                    _ => {
                        server.delete("/v1/sandboxes/a").await.expect(204);
                    }
                }
            }
        }
    };
    futures::future::join_all((1..=4).map(worker)).await;
    server.delete("/v1/sandboxes/a").await.expect(204);
    assert_eq!(processes(&nap).len(), 0, "something runs after the last 204");
    let directory = server.data.join("run").join(Server::object("local", "a"));
    eventually("nothing is left of it", SOON, || async { (!directory.exists()).then_some(()) })
        .await;
    let stops = stops(&server, "a").await;
    assert!(stops.len() > 10, "too little happened: {}", stops.len());
    assert_every_start_stopped_once(&stops);
    for stop in &stops {
        let cause = stop["cause"].as_str().unwrap();
        assert!(["stopped", "destroyed"].contains(&cause), "{stop}");
    }
    // Each was told once.
    let mut told: Vec<u64> = Vec::new();
    eventually("a line of each stop", SOON, || {
        told.extend(server.stop_lines().iter().map(|l| l["generation"].as_u64().unwrap()));
        let all = told.len() >= stops.len();
        async move { all.then_some(()) }
    })
    .await;
    told.sort_unstable();
    assert_eq!(told, (1..=stops.len() as u64).collect::<Vec<_>>());
    let (clean, said) = server.leaks();
    assert!(clean, "{said}");
}

/// One of these, or what a race may answer: the stop or the destroy that overtook it.
fn allowed(answer: &e2e::Answer, fine: &[u16]) {
    if !fine.contains(&answer.status) {
        let code = answer.json()["code"].clone();
        let raced = code == "INSTANCE_STOPPED" || code == "SANDBOX_DESTROYED";
        // `start` answers with the info, which a delete may have taken away meanwhile.
        let gone = code == "SANDBOX_NOT_FOUND";
        assert!(raced || gone, "{}: {}", answer.status, answer.text());
    }
}

#[tokio::test]
async fn heavy_what_runs_is_never_told_to_be_stopped() {
    let server = Server::start().await;
    let running = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    start(&server, "a").await;
    let cycle = async {
        for n in 1..=200 {
            running.store(false, Ordering::SeqCst);
            stop(&server, "a").await;
            assert_eq!(record(&server, "a").await["state"], "stopped", "round {n}");
            let info = start(&server, "a").await;
            assert_eq!(info["running"], true, "round {n}");
            running.store(true, Ordering::SeqCst);
            let record = record(&server, "a").await;
            assert_eq!(record["state"], "running", "round {n}: {record}");
            assert_eq!(record["starts"], n + 1, "round {n}");
        }
        over.store(true, Ordering::SeqCst);
    };
    let observer = async {
        while !over.load(Ordering::SeqCst) {
            let before = running.load(Ordering::SeqCst);
            let list = server.get("/users/local/sandboxes").await.expect(200);
            let after = running.load(Ordering::SeqCst);
            if before && after {
                let record = record(&server, "a").await;
                // It may have been a whole stop and start between the two looks.
                let moved = !running.load(Ordering::SeqCst) || record["state"] == "running";
                assert!(list[0]["running"] == true || moved, "{list} {record}");
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::join!(cycle, observer);
    // The end of an earlier instance never touches a later one, also not late.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(record(&server, "a").await["state"], "running");
    assert_eq!(server.exec("a", &["echo", "still"]).await["stdout"], "still\n");
    let stops = stops(&server, "a").await;
    assert_eq!(stops.len(), 200);
    assert_every_start_stopped_once(&stops);
}

#[tokio::test]
async fn heavy_a_delete_is_final_whatever_started_beside_it() {
    let server = Server::start().await;
    let nap = nap();
    let body = json!({"argv": ["sh", "-c", format!("sleep {nap} >/dev/null 2>&1 & echo")]});
    for round in 0..100 {
        let command = server.post("/users/ada/sandboxes/x", body.clone());
        let delete = async {
            tokio::time::sleep(std::time::Duration::from_millis(round % 12)).await;
            server.delete("/users/ada/sandboxes/x").await.expect(204);
        };
        let (answer, ()) = tokio::join!(command, delete);
        allowed(&answer, &[200]);
        // What came after the 204 is a new sandbox; nothing comes after this one.
        server.delete("/users/ada/sandboxes/x").await.expect(204);
        assert_eq!(processes(&nap).len(), 0, "it runs after the 204, round {round}");
        server.get("/users/ada/sandboxes/x").await.expect_error(404, "SANDBOX_NOT_FOUND");
    }
    until_gone(&nap).await;
}
