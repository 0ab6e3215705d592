//! Waiting for room: in turn, not for ever, and not for somebody who went away.

use crate::rig::{SOON, configured, quotas, run, stop};
use e2e::{Server, eventually};
use serde_json::json;
use std::time::{Duration, Instant};

/// One instance runs, and it is the only one that may.
async fn full(toml: &str) -> (Server, tempfile::TempDir) {
    let (server, directory) = configured(toml).await;
    run(&server, "first", &["true"], "").await.expect(200);
    (server, directory)
}

const ONE: &str = "[quotas]\nrunning = 1\n";

#[tokio::test]
async fn a_start_that_waits_runs_as_soon_as_there_is_room() {
    let (server, _directory) = full(ONE).await;
    let waiting = run(&server, "second", &["echo", "hi"], "?waitMs=60000");
    let freeing = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        stop(&server, "first").await;
    };
    let (answer, ()) = tokio::join!(waiting, freeing);
    assert_eq!(answer.expect(200)["stdout"], "hi\n");
    // Without room it gives up, and says what is short.
    let began = Instant::now();
    let answer = run(&server, "third", &["true"], "?waitMs=700").await;
    let body = answer.expect_error(429, "QUOTA_EXCEEDED");
    assert!(began.elapsed() >= Duration::from_millis(700), "it gave up too soon");
    assert_eq!(body["context"]["what"], "running");
    // Longer than a minute nobody waits.
    let answer = run(&server, "third", &["true"], "?waitMs=60001").await;
    assert_eq!(answer.expect_error(400, "VALIDATION_FAILED")["context"]["field"], "waitMs");
}

#[tokio::test]
async fn those_who_wait_come_in_the_order_in_which_they_came() {
    let (server, _directory) = full(ONE).await;
    let mut waiting = Vec::new();
    for n in 0..4 {
        let url = format!("{}/v1/sandboxes/w{n}/exec?waitMs=60000", server.url);
        let body = json!({ "argv": ["date", "+%s%N"] });
        let request = server.http.post(url).json(&body).send();
        waiting.push(tokio::spawn(async move {
            let answer: serde_json::Value = request.await.unwrap().json().await.unwrap();
            let told = answer["stdout"].as_str().unwrap_or_else(|| panic!("{answer}"));
            told.trim().parse::<u128>().unwrap()
        }));
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    // Who does not wait does not go before them, not even when there is room for a moment.
    stop(&server, "first").await;
    let mut ends = Vec::new();
    for (n, wait) in waiting.into_iter().enumerate() {
        ends.push(tokio::time::timeout(SOON, wait).await.expect("its turn comes").unwrap());
        stop(&server, &format!("w{n}")).await;
    }
    assert!(ends.is_sorted(), "{ends:?}");
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_line() {
    let (server, _directory) = full(ONE).await;
    let impatient = server.http.post(format!("{}/v1/sandboxes/gone/exec?waitMs=60000", server.url));
    let impatient =
        impatient.json(&json!({ "argv": ["true"] })).timeout(Duration::from_millis(400));
    assert!(impatient.send().await.unwrap_err().is_timeout());
    let impatient = server.http.post(format!("{}/v1/sandboxes/gone/exec?waitMs=60000", server.url));
    let impatient = impatient.header("accept", "application/x-ndjson");
    let impatient =
        impatient.json(&json!({ "argv": ["true"] })).timeout(Duration::from_millis(400));
    assert!(impatient.send().await.unwrap_err().is_timeout());
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop(&server, "first").await;
    // Nobody of them comes any more.
    let answer = run(&server, "second", &["true"], "").await;
    answer.expect(200);
    assert_eq!(server.get("/v1/sandboxes/gone").await.status, 404);
}

#[tokio::test]
async fn the_operator_may_let_all_starts_wait() {
    let (server, _directory) = full("[quotas]\nrunning = 1\nwait = \"60s\"\n").await;
    let waiting = run(&server, "second", &["true"], "");
    let freeing = async {
        eventually("it waits", SOON, || async {
            (quotas(&server, "local").await["current"]["running"] == 1).then_some(())
        })
        .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        stop(&server, "first").await;
    };
    let (answer, ()) = tokio::join!(waiting, freeing);
    answer.expect(200);
    run(&server, "third", &["true"], "?waitMs=0").await.expect_error(429, "QUOTA_EXCEEDED");
}
