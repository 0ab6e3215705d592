//! kill -9 of the server at any point of a stream of executions.

use crate::rig::*;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Kills; each meets eight executions. `SANDKEEP_TEST_KILLS` asks for another number.
const KILLS: u64 = 200;

/// The memory has the number three times, far apart: a mixture of two states would show.
const STEP: &str = "n += 1; all.push(n); big[n * 997 % big.length] = n; n";
const CHECK: &str = "[n, all.length, all.at(-1) ?? 0, Math.max(...big)]";

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_killed_server_leaves_each_context_at_one_execution() {
    let kills =
        std::env::var("SANDKEEP_TEST_KILLS").map_or(KILLS, |n| n.parse().expect("a number"));
    let mut server = server().await;
    let mut contexts = Vec::new();
    for i in 0..8 {
        let sandbox = format!("s{}", i % 2);
        let id = context(&server, &sandbox, "JAVASCRIPT").await;
        let begin = "let n = 0; const all = []; const big = new Float64Array(20000)";
        run(&server, &sandbox, &id, begin).await;
        contexts.push((sandbox, id, Arc::new(AtomicU64::new(0))));
    }
    for round in 0..kills {
        let streams: Vec<_> = contexts
            .iter()
            .map(|(sandbox, id, told)| {
                let url = format!("{}/v1/sandboxes/{sandbox}/contexts/{id}/execute", server.url);
                let (http, told) = (server.http.clone(), told.clone());
                tokio::spawn(async move {
                    loop {
                        let sent = http.post(&url).json(&json!({ "code": STEP })).send().await;
                        let Ok(answer) = sent else { return };
                        let Ok(answer) = answer.json::<serde_json::Value>().await else { return };
                        let n = answer["results"][0]["json"].as_u64();
                        told.store(n.unwrap_or_else(|| panic!("{answer}")), Ordering::SeqCst);
                    }
                })
            })
            .collect();
        // The kill meets another place each time.
        let clock = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970").subsec_nanos();
        let nap = 30 + (u64::from(clock) / 1000 + round * 37) % 230;
        tokio::time::sleep(Duration::from_millis(nap)).await;
        server.kill();
        for stream in streams {
            stream.await.expect("no answer was wrong");
        }
        server.restart().await;
        for (sandbox, id, told) in &contexts {
            let answer = run(&server, sandbox, id, CHECK).await;
            let state = answer["results"][0]["json"].clone();
            let n = state[0].as_u64().unwrap_or_else(|| panic!("{answer}"));
            let last = told.load(Ordering::SeqCst);
            assert!(n == last || n == last + 1, "acknowledged {last}, found {n}");
            assert_eq!(state, json!([n, n, n, n]), "a mixture of two states");
            told.store(n, Ordering::SeqCst);
        }
    }
    let total: u64 = contexts.iter().map(|(_, _, told)| told.load(Ordering::SeqCst)).sum();
    assert!(total > kills, "{total} executions were met");
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_contexts_stand_side_by_side() {
    let server = server().await;
    let mut contexts = Vec::new();
    for i in 0..30 {
        let sandbox = format!("s{}", i / 8);
        let id = context(&server, &sandbox, "JAVASCRIPT").await;
        run(&server, &sandbox, &id, &format!("let own = {i}; const f = () => own * 2")).await;
        contexts.push((sandbox, id));
    }
    for _ in 0..2 {
        let all = contexts.iter().map(|(sandbox, id)| run(&server, sandbox, id, "own += 1; f()"));
        let answers = futures::future::join_all(all).await;
        for (i, answer) in answers.iter().enumerate() {
            let round = answer["executionCount"].as_u64().expect("a number") - 1;
            assert_eq!(text(answer), (2 * (i as u64 + round)).to_string());
        }
    }
}
