//! What survives: restarts, kill -9, other contexts beside it.

use crate::rig::*;
use e2e::Server;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn memory_survives_a_restart_and_kill_9() {
    let mut server = server().await;
    let mut ids = Vec::new();
    for lang in languages() {
        let id = context(&server, "s", lang.binding).await;
        run(&server, "s", &id, lang.set).await;
        let defined = run(&server, "s", &id, lang.define).await;
        assert!(defined.get("error").is_none(), "{defined}");
        ids.push(id);
    }
    server.terminate();
    server.restart().await;
    for (lang, id) in languages().into_iter().zip(&ids) {
        let answer = run(&server, "s", id, lang.use_it).await;
        assert_eq!(text(&answer), "42", "{}", lang.binding);
        let answer = run(&server, "s", id, lang.add).await;
        assert!(answer.get("error").is_none(), "{answer}");
    }
    // Right after the answer.
    server.kill();
    server.restart().await;
    for (lang, id) in languages().into_iter().zip(&ids) {
        let answer = run(&server, "s", id, lang.get).await;
        assert_eq!(text(&answer), "43", "{}", lang.binding);
        assert_eq!(answer["executionCount"], 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_kept_however_soon_the_server_is_killed() {
    let mut server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "let n = 0").await;
    for n in 1..=8 {
        let answer = run(&server, "s", &id, "n += 1").await;
        server.kill();
        assert_eq!(text(&answer), n.to_string());
        server.restart().await;
    }
    // Killed within an execution: as before it, or as after it.
    for _ in 0..6 {
        let before = run(&server, "s", &id, "n").await;
        let before: u64 = text(&before).parse().expect("a number");
        let url = format!("{}/v1/sandboxes/s/contexts/{id}/execute", server.url);
        let sent = server.http.post(url).json(&json!({ "code": "n += 1" })).send();
        let sent = tokio::spawn(sent);
        tokio::time::sleep(std::time::Duration::from_millis(before % 7)).await;
        server.kill();
        drop(sent.await);
        server.restart().await;
        let after = run(&server, "s", &id, "n").await;
        let after: u64 = text(&after).parse().expect("a number");
        assert!(after == before || after == before + 1, "{before} {after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn contexts_do_not_see_each_other_and_share_files() {
    let server = server().await;
    for lang in languages() {
        let sandbox = format!("s-{}", lang.language);
        let (a, b) = (
            context(&server, &sandbox, lang.binding).await,
            context(&server, &sandbox, lang.binding).await,
        );
        run(&server, &sandbox, &a, lang.set).await;
        let answer = run(&server, &sandbox, &b, lang.get).await;
        assert!(answer.get("error").is_some() || text(&answer) != "42", "{answer}");
        run(&server, &sandbox, &a, lang.write).await;
        let answer = run(&server, &sandbox, &b, lang.read).await;
        assert_eq!(answer["results"][0]["json"], "from code", "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_of_a_snapshot_adds_up() {
    let server = server().await;
    for lang in languages() {
        let id = context(&server, "s", lang.binding).await;
        run(&server, "s", &id, lang.set).await;
        let context = told(&server, "s", &id).await;
        let snapshot = &context["snapshot"];
        let number = |name: &str| snapshot[name].as_u64().unwrap_or_else(|| panic!("{context}"));
        assert_eq!(snapshot["build"].as_str().expect("text").len(), 32);
        assert_eq!(number("bytes"), number("pages") * 65_536);
        assert_eq!(number("storedBytes") % (1 << 20), 0);
        assert!(number("storedBytes") >= number("bytes"));
        assert!(number("memoryBytes") >= number("bytes"));
        assert!(number("diskBytes") > 0 && number("diskBytes") < number("bytes"));
        assert_eq!(snapshot["stale"], false);
        assert!(snapshot["takenAt"].as_str().expect("ISO 8601").ends_with('Z'));
        assert_eq!(context["executions"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_code_are_results_and_keep_its_memory() {
    let server = server().await;
    for lang in languages() {
        let id = context(&server, "s", lang.binding).await;
        run(&server, "s", &id, lang.set).await;
        let answer = run(&server, "s", &id, &format!("{}\n{}", lang.add, lang.fail)).await;
        assert_eq!(answer["error"]["name"], lang.error, "{answer}");
        assert_eq!(answer["rolledBack"], false);
        assert_eq!(answer["results"], json!([]));
        assert_eq!(text(&run(&server, "s", &id, lang.get).await), "43", "{}", lang.binding);
        let answer = run(&server, "s", &id, lang.print).await;
        assert_eq!(answer["logs"]["stdout"], json!(["out"]), "{answer}");
        assert_eq!(answer["logs"]["stderr"], json!(["err"]), "{answer}");
        let entries = answer["logs"]["entries"].as_array().expect("a list").clone();
        let joined: String = entries.iter().map(|e| e["text"].as_str().expect("text")).collect();
        assert_eq!(joined, "out\nerr\n");
        assert!(entries.iter().all(|e| e["at"].as_i64().is_some_and(|at| at > 0)));
    }
}

/// No result at all for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_is_text_and_json_where_that_is_true() {
    let server = server().await;
    let answer = execute(&server, "s", "JAVASCRIPT", "({ a: [1, 'x', null] })").await;
    assert_eq!(answer["results"][0]["json"], json!({ "a": [1, "x", Value::Null] }));
    for silent in ["undefined", "let quiet = 1"] {
        let answer = execute(&server, "s", "JAVASCRIPT", silent).await;
        assert_eq!(answer["results"], json!([]), "{answer}");
    }
    for lossy in ["2n ** 80n", "NaN", "Infinity", "new Map()"] {
        let answer = execute(&server, "s", "JAVASCRIPT", lossy).await;
        assert!(answer["results"][0].get("json").is_none(), "{answer}");
        assert!(!text(&answer).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_back_from_the_disk_is_counted() {
    let mut server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    let counted = |server: &Server| {
        let (http, url) = (server.http.clone(), format!("{}/metrics", server.url));
        async move {
            let text = http.get(url).send().await.expect("an answer").text().await.expect("text");
            let value = |name: &str| -> f64 {
                let line = text.lines().find(|line| line.starts_with(name));
                line.map_or(0.0, |line| line.rsplit(' ').next().expect("a value").parse().unwrap())
            };
            let total = value("sandkeep_context_restores_total{binding=\"JAVASCRIPT\"}");
            let seconds = value("sandkeep_context_restore_seconds_sum");
            (total, value("sandkeep_context_restore_seconds_count"), seconds)
        }
    };
    // A fresh one and a warm one are no restores.
    run(&server, "s", &id, "let n = 1").await;
    run(&server, "s", &id, "n += 1").await;
    assert_eq!(counted(&server).await, (0.0, 0.0, 0.0));
    server.kill();
    server.restart().await;
    run(&server, "s", &id, "n += 1").await;
    run(&server, "s", &id, "n += 1").await;
    let (total, count, seconds) = counted(&server).await;
    assert!((total, count) == (1.0, 1.0) && seconds > 0.0 && seconds < 60.0, "{seconds}");
}
