//! All that code made goes on after its worker, the server, or both ended.

use crate::carried::{self, Carried};
use crate::damage::workers;
use crate::rig::*;
use e2e::{Server, eventually};
use serde_json::json;

/// Contexts that came back from the disk since the server began.
async fn restores(server: &Server, binding: &str) -> u64 {
    let send = server.http.get(format!("{}/metrics", server.url)).send();
    let all = send.await.expect("an answer").text().await.expect("text");
    let name = format!("sandkeep_context_restores_total{{binding=\"{binding}\"}} ");
    all.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0)
}

async fn begin(server: &Server, contexts: &[(&str, &Carried, String)]) {
    let each = contexts.iter().map(|(binding, carried, id)| async move {
        for code in carried.set {
            let answer = run(server, "s", id, code).await;
            assert!(answer.get("error").is_none(), "{binding}: {code}: {answer}");
        }
    });
    futures::future::join_all(each).await;
}

/// Every language beside the others: each answer is the last of its context.
async fn check(server: &Server, contexts: &[(&str, &Carried, String)], round: usize) {
    let each = contexts.iter().map(|(binding, carried, id)| async move {
        for (code, told) in carried.check {
            let answer = run(server, "s", id, code).await;
            assert_eq!(text(&answer), told[round], "{binding} round {round}: {code}");
        }
    });
    futures::future::join_all(each).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_code_made_goes_on_after_kill_9_idleness_and_a_restart() {
    let mut server = server().await;
    server.put("/v1/sandboxes/s", json!({ "idleLimitMs": 1000 })).await.expect(201);
    let mut contexts = Vec::new();
    for lang in languages() {
        let carried = carried::ALL.iter().find(|carried| carried.language == lang.language);
        let id = context(&server, "s", lang.binding).await;
        contexts.push((lang.binding, *carried.expect("a table"), id));
    }
    begin(&server, &contexts).await;
    // Right after the answers.
    server.kill();
    server.restart().await;
    for round in 0..3 {
        match round {
            0 => {}
            1 => {
                let none = || async { workers(&server).is_empty().then_some(()) };
                eventually("the worker ends", SOON, none).await;
            }
            _ => {
                server.terminate();
                server.restart().await;
            }
        }
        let mut before = Vec::new();
        for (binding, ..) in &contexts {
            before.push(restores(&server, binding).await);
        }
        check(&server, &contexts, round).await;
        for ((binding, ..), before) in contexts.iter().zip(before) {
            let after = restores(&server, binding).await;
            assert!(after > before, "{binding} was warm");
        }
    }
}

/// Waits for a second by the clock that never goes back, and tells it. Perl has no such clock.
fn clock(language: &str) -> &'static str {
    match language {
        "javascript" => {
            "const end = performance.now() + 1000; while (performance.now() < end); performance.now()"
        }
        "python" => "import time; time.sleep(1); time.monotonic()",
        "ruby" => "sleep 1; Process.clock_gettime(Process::CLOCK_MONOTONIC)",
        _ => "use Time::HiRes 'time'; sleep 1; sprintf '%.6f', time",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_a_context_never_goes_back() {
    let mut server = server().await;
    let mut contexts = Vec::new();
    for lang in languages() {
        contexts.push((lang, context(&server, "s", lang.binding).await, 0.0));
    }
    for round in 0..3 {
        let on = &server;
        let each = contexts.iter_mut().map(|(lang, id, last)| async move {
            let answer = run(on, "s", id, clock(lang.language)).await;
            let now: f64 = text(&answer).parse().expect("a number");
            // In seconds, and in milliseconds: at least what it waited for.
            let least = *last + if lang.language == "javascript" { 1000.0 } else { 1.0 };
            assert!(now >= least, "{} round {round}: {now} after {last}", lang.binding);
            *last = now;
        });
        futures::future::join_all(each).await;
        match round {
            0 => _ = server.terminate(),
            _ => server.kill(),
        }
        server.restart().await;
    }
}
