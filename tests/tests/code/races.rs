//! Many at once: executions, deletes, destroys, clients that vanish.

use crate::rig::*;
use e2e::eventually;
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn executions_of_one_context_come_one_after_the_other() {
    let server = server().await;
    for lang in languages() {
        let id = context(&server, "s", lang.binding).await;
        run(&server, "s", &id, lang.set).await;
        let body = || json!({ "code": lang.add });
        let all = (0..20).map(|_| ask(&server, "s", &id, body()));
        let mut counts = Vec::new();
        for answer in futures::future::join_all(all).await {
            let answer = answer.expect(200);
            assert!(answer.get("error").is_none(), "{answer}");
            counts.push(answer["executionCount"].as_u64().expect("a number"));
        }
        counts.sort_unstable();
        assert_eq!(counts, (2..=21).collect::<Vec<_>>(), "each has its own number");
        assert_eq!(text(&run(&server, "s", &id, lang.get).await), "62", "{}", lang.binding);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_contexts_run_at_the_same_time() {
    let server = server().await;
    let (a, b) =
        (context(&server, "s", "JAVASCRIPT").await, context(&server, "s", "JAVASCRIPT").await);
    let wait = "const fs = require('fs'); fs.writeFileSync('/workspace/a', ''); \
                while (!fs.existsSync('/workspace/b')) {}; 'met'";
    let answer = "const fs = require('fs'); while (!fs.existsSync('/workspace/a')) {}; \
                  fs.writeFileSync('/workspace/b', ''); 'met'";
    let (first, second) = tokio::join!(run(&server, "s", &a, wait), run(&server, "s", &b, answer));
    assert_eq!((text(&first), text(&second)), ("'met'", "'met'"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_ends_the_execution_and_those_behind() {
    let server = server().await;
    for lang in languages() {
        let s = lang.language;
        let (id, other) =
            (context(&server, s, lang.binding).await, context(&server, s, lang.binding).await);
        run(&server, s, &id, lang.set).await;
        run(&server, s, &other, lang.set).await;
        let running = spinning(&server, s, &id, lang, "on").await;
        let url = format!("{}/v1/sandboxes/{s}/contexts/{id}/execute", server.url);
        let behind = tokio::spawn(server.http.post(url).json(&json!({ "code": lang.get })).send());
        server.delete(&format!("/v1/sandboxes/{s}/contexts/{id}")).await.expect(204);
        let (status, body) = running.await.expect("it ended");
        assert_eq!((status, &body["code"]), (404, &json!("CONTEXT_NOT_FOUND")), "{body}");
        let behind = behind.await.expect("it ended").expect("an answer");
        assert_eq!(behind.status().as_u16(), 404);
        let answer = run(&server, s, &other, lang.get).await;
        assert_eq!(text(&answer), "42", "{s}: others live on");
        let list = server.get(&format!("/v1/sandboxes/{s}/contexts")).await.expect(200);
        assert_eq!(list["contexts"].as_array().expect("a list").len(), 1);
        let dir = server.data.join("sandboxes").join(e2e::Server::object("local", s));
        let dir = dir.join("contexts").join(&id);
        let gone = || async { (!dir.exists()).then_some(()) };
        eventually("its files are gone", SOON, gone).await;
        // Also where it was the last one, a new one begins with nothing.
        server.delete(&format!("/v1/sandboxes/{s}/contexts/{other}")).await.expect(204);
        begins_with_nothing(&server, lang, s).await;
    }
}

/// The default context of a language is a new one.
async fn begins_with_nothing(server: &e2e::Server, lang: &Lang, id: &str) {
    let body = json!({ "code": lang.get, "binding": lang.binding });
    let first = server.post(&format!("/v1/sandboxes/{id}/execute"), body).await.expect(200);
    assert_eq!(first["executionCount"], 1, "{first}");
    // In Perl nothing plus one is one.
    assert!(first.get("error").is_some() || text(&first) == "1", "{first}");
    execute(server, id, lang.binding, lang.set).await;
    assert_eq!(text(&execute(server, id, lang.binding, lang.get).await), "42", "{id}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destroy_ends_all_executions_and_nothing_comes_back() {
    let server = server().await;
    for lang in languages() {
        let s = lang.language;
        let id = context(&server, s, lang.binding).await;
        run(&server, s, &id, lang.set).await;
        let running = spinning(&server, s, &id, lang, "on").await;
        server.delete(&format!("/v1/sandboxes/{s}")).await.expect(204);
        let (status, body) = running.await.expect("it ended");
        assert_eq!((status, &body["code"]), (409, &json!("SANDBOX_DESTROYED")), "{body}");
        server.get(&format!("/v1/sandboxes/{s}")).await.expect_error(404, "SANDBOX_NOT_FOUND");
        begins_with_nothing(&server, lang, s).await;
        assert!(!place(&server, s, "on").exists(), "a new life");
        let list = server.get(&format!("/v1/sandboxes/{s}/contexts")).await.expect(200);
        assert_eq!(list["contexts"].as_array().expect("a list").len(), 1);
        ask(&server, s, &id, json!({ "code": "1" })).await.expect_error(404, "CONTEXT_NOT_FOUND");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn destroys_and_executions_in_any_order_leave_no_mixture() {
    let server = server().await;
    for round in 0..6 {
        let code = json!({ "code": "let x = 1; x", "binding": "JAVASCRIPT" });
        let runs = (0..4).map(|_| server.post("/v1/sandboxes/s/execute", code.clone()));
        let destroy = async {
            tokio::time::sleep(Duration::from_millis(3 * round)).await;
            server.delete("/v1/sandboxes/s").await
        };
        let (answers, gone) = tokio::join!(futures::future::join_all(runs), destroy);
        gone.expect(204);
        for answer in answers {
            match answer.status {
                200 => {}
                404 => drop(answer.expect_error(404, "CONTEXT_NOT_FOUND")),
                _ => drop(answer.expect_error(409, "SANDBOX_DESTROYED")),
            }
        }
    }
    server.delete("/v1/sandboxes/s").await.expect(204);
    server.get("/v1/sandboxes/s").await.expect_error(404, "SANDBOX_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_stops_its_code() {
    let server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "let x = 41").await;
    let running = spinning(&server, "s", &id, &JAVASCRIPT, "on").await;
    running.abort();
    let _ = running.await;
    // The next one gets its turn, with the memory from before.
    let answer = run(&server, "s", &id, "x + 1").await;
    assert_eq!(text(&answer), "42");
    assert_eq!(answer["executionCount"], 2);
    // One that went away while it waited never runs.
    let running = spinning(&server, "s", &id, &JAVASCRIPT, "again").await;
    let url = format!("{}/v1/sandboxes/s/contexts/{id}/execute", server.url);
    let send =
        server.http.post(url).json(&json!({ "code": "x = 0" })).timeout(Duration::from_millis(300));
    assert!(send.send().await.is_err(), "it waits");
    running.abort();
    let _ = running.await;
    eventually("it is noticed", SOON, || async {
        let answer = run(&server, "s", &id, "x").await;
        (text(&answer) == "41").then_some(())
    })
    .await;
}
