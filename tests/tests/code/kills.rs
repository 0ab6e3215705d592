//! kill -9 of the server at any point of a stream of executions.

use crate::rig::*;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Kills; each meets eight executions. `SANDKEEP_TEST_KILLS` asks for another number.
const KILLS: u64 = 200;

/// How a language begins to count, counts one further, and tells the number. The memory has it three
/// times, far apart: a mixture of two states would show.
fn counter(language: &str) -> [&'static str; 3] {
    match language {
        "javascript" => [
            "let n = 0; const all = []; const big = new Float64Array(20000)",
            "n += 1; all.push(n); big[n * 997 % big.length] = n; n",
            "[n, all.length, all.at(-1) ?? 0, Math.max(...big)]",
        ],
        "python" => [
            "n = 0; all = []; big = [0.0] * 20000",
            "n += 1; all.append(n); big[n * 997 % len(big)] = n; n",
            "[n, len(all), all[-1] if all else 0, int(max(big))]",
        ],
        "ruby" => [
            "n = 0; all = []; big = [0] * 20000",
            "n += 1; all << n; big[n * 997 % big.size] = n; n",
            "[n, all.size, all.last || 0, big.max]",
        ],
        _ => [
            "use List::Util 'max'; our $n = 0; our @all; our @big = (0) x 20000;",
            "$n++; push @all, $n; $big[$n * 997 % @big] = $n; $n + 0",
            "[$n, scalar @all, $all[-1] // 0, max @big]",
        ],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_killed_server_leaves_each_context_at_one_execution() {
    let kills =
        std::env::var("SANDKEEP_TEST_KILLS").map_or(KILLS, |n| n.parse().expect("a number"));
    let mut server = server().await;
    let mut contexts = Vec::new();
    for i in 0..8 {
        let sandbox = format!("s{}", i % 2);
        let languages = languages();
        let lang = languages[i / 2 % languages.len()];
        let id = context(&server, &sandbox, lang.binding).await;
        let [begin, step, check] = counter(lang.language);
        let begun = run(&server, &sandbox, &id, begin).await;
        assert!(begun.get("error").is_none(), "{begun}");
        contexts.push((sandbox, id, step, check, Arc::new(AtomicU64::new(0))));
    }
    for round in 0..kills {
        let streams: Vec<_> = contexts
            .iter()
            .map(|(sandbox, id, step, _, told)| {
                let url = format!("{}/v1/sandboxes/{sandbox}/contexts/{id}/execute", server.url);
                let (http, step, told) = (server.http.clone(), *step, told.clone());
                tokio::spawn(async move {
                    loop {
                        let sent = http.post(&url).json(&json!({ "code": step })).send().await;
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
        for (sandbox, id, _, check, told) in &contexts {
            let answer = run(&server, sandbox, id, check).await;
            let state = answer["results"][0]["json"].clone();
            let n = state[0].as_u64().unwrap_or_else(|| panic!("{answer}"));
            let last = told.load(Ordering::SeqCst);
            assert!(n == last || n == last + 1, "acknowledged {last}, found {n}");
            assert_eq!(state, json!([n, n, n, n]), "a mixture of two states");
            told.store(n, Ordering::SeqCst);
        }
    }
    let met: Vec<_> = contexts.iter().map(|(.., told)| told.load(Ordering::SeqCst)).collect();
    assert!(!met.contains(&0) && met.iter().sum::<u64>() > kills, "{met:?} executions were met");
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
