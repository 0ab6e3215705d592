//! Copies of contexts, and states to go back to.

use crate::rig::*;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_begins_where_the_other_is() {
    let mut server = server().await;
    for lang in languages() {
        let sandbox = format!("s-{}", lang.language);
        let first = context(&server, &sandbox, lang.binding).await;
        run(&server, &sandbox, &first, lang.set).await;
        let path = format!("/v1/sandboxes/{sandbox}/contexts/{first}/fork");
        let fork = server.post(&path, Value::Null).await.expect(201);
        let second = fork["id"].as_str().expect("an id").to_owned();
        assert_ne!(second, first);
        assert_eq!(fork["executions"], 1);
        run(&server, &sandbox, &second, lang.add).await;
        assert_eq!(text(&run(&server, &sandbox, &first, lang.get).await), "42");
        assert_eq!(text(&run(&server, &sandbox, &second, lang.get).await), "43");
        // The copy stands by itself.
        server.delete(&format!("/v1/sandboxes/{sandbox}/contexts/{first}")).await.expect(204);
        server.kill();
        server.restart().await;
        assert_eq!(text(&run(&server, &sandbox, &second, lang.get).await), "43");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_context_can_be_copied_and_kept() {
    let server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    let base = format!("/v1/sandboxes/s/contexts/{id}");
    let kept = server.post(&format!("{base}/checkpoints"), json!({ "name": "empty" })).await;
    assert_eq!(kept.expect(201)["executions"], 0);
    let fork = server.post(&format!("{base}/fork"), Value::Null).await.expect(201);
    run(&server, "s", fork["id"].as_str().expect("an id"), "1").await;
    run(&server, "s", &id, "let y = 1").await;
    server.post(&format!("{base}/checkpoints/empty/rollback"), Value::Null).await.expect(200);
    let answer = run(&server, "s", &id, "typeof y").await;
    assert_eq!(answer["results"][0]["json"], "undefined");
    assert_eq!(answer["executionCount"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_bring_a_state_back() {
    let mut server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    let base = format!("/v1/sandboxes/s/contexts/{id}/checkpoints");
    run(&server, "s", &id, "let x = 0; const big = 'y'.repeat(200000)").await;
    for n in 1..=3 {
        run(&server, "s", &id, "x += 1").await;
        let made = server.post(&base, json!({ "name": format!("at-{n}") })).await.expect(201);
        assert_eq!(made["executions"], n + 1);
        assert!(made["diskBytes"].as_u64().expect("a number") > 0);
    }
    server.post(&base, json!({ "name": "at-2" })).await.expect_error(409, "CHECKPOINT_EXISTS");
    server.post(&base, json!({ "name": "a/b" })).await.expect_error(400, "VALIDATION_FAILED");
    let list = server.get(&base).await.expect(200);
    let names: Vec<_> =
        list["checkpoints"].as_array().expect("a list").iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["at-1", "at-2", "at-3"]);

    let back = async |server: &e2e::Server, name: &str| {
        server.post(&format!("{base}/{name}/rollback"), Value::Null).await
    };
    // To and fro, with executions between that have the numbers of kept states.
    for (name, x) in [("at-1", 1), ("at-3", 3), ("at-2", 2), ("at-2", 2), ("at-3", 3), ("at-1", 1)]
    {
        let told = back(&server, name).await.expect(200);
        assert_eq!(told["executions"], x + 1);
        assert_eq!(text(&run(&server, "s", &id, "x").await), x.to_string(), "{name}");
        run(&server, "s", &id, "x = 100").await;
    }
    back(&server, "never").await.expect_error(404, "CHECKPOINT_NOT_FOUND");
    server.kill();
    server.restart().await;
    back(&server, "at-2").await.expect(200);
    let answer = run(&server, "s", &id, "x + big.length").await;
    assert_eq!(text(&answer), "200002");
    server.delete(&format!("{base}/at-2")).await.expect(204);
    server.delete(&format!("{base}/at-2")).await.expect_error(404, "CHECKPOINT_NOT_FOUND");
    assert_eq!(text(&run(&server, "s", &id, "x").await), "2");
    back(&server, "at-3").await.expect(200);
    assert_eq!(text(&run(&server, "s", &id, "x").await), "3");
    // Nothing is left of states that nobody can reach: two packs of this one, and one that the next
    // execution writes over.
    for name in ["at-1", "at-3"] {
        server.delete(&format!("{base}/{name}")).await.expect(204);
    }
    run(&server, "s", &id, "x").await;
    let dir = server.data.join("sandboxes").join(e2e::Server::object("local", "s"));
    let packs = || std::fs::read_dir(dir.join("contexts").join(&id)).expect("it is there").count();
    e2e::eventually("old packs go", SOON, || async { (packs() <= 3).then_some(()) }).await;
}
