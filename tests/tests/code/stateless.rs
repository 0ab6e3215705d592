//! Code without a sandbox.

use crate::rig::*;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_there_and_nothing_is_kept() {
    let server = server().await;
    for lang in languages() {
        let run = async |code: &str, vars: serde_json::Value| {
            let body = json!({ "code": code, "binding": lang.binding, "envVars": vars });
            server.post("/v1/execute", body).await.expect(200)
        };
        let answer = run(lang.env, json!({ "V": "call" })).await;
        assert_eq!(answer["results"][0]["json"], "call", "{answer}");
        assert!(answer.get("context").is_none() && answer.get("executionCount").is_none());
        assert_eq!(answer["rolledBack"], false);
        run(lang.set, json!({})).await;
        let answer = run(lang.get, json!({})).await;
        assert!(answer.get("error").is_some() || text(&answer) != "42", "{answer}");
        let answer = run(lang.write, json!({})).await;
        let why = answer["error"]["message"].as_str().expect("text").to_lowercase();
        assert!(why.contains("read-only file system"), "{answer}");
        let answer = run(lang.read, json!({})).await;
        assert!(answer.get("error").is_some(), "{answer}");
        let answer = run(lang.fail, json!({})).await;
        assert_eq!(answer["error"]["name"], lang.error, "{answer}");
    }
    let all = server.get("/v1/sandboxes").await.expect(200);
    assert_eq!(all["sandboxes"], json!([]));
    // What is thrown away may break.
    let breaks = json!({ "code": "%main:: = (); 5", "language": "perl" });
    let answer = server.post("/v1/execute", breaks).await.expect(200);
    assert_eq!((text(&answer), &answer["rolledBack"]), ("5", &json!(false)));
    let local = json!({ "code": "(1234.5).toLocaleString()", "language": "javascript" });
    let answer = server.post("/v1/execute", local).await.expect(200);
    assert_eq!(text(&answer), "'1,234.5'");
    let limited = json!({ "code": JAVASCRIPT.spin, "language": "javascript", "timeoutMs": 200 });
    let answer = server.post("/v1/execute", limited).await.expect(200);
    assert_eq!(answer["error"]["name"], "ExecutionLimitError");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_are_apart() {
    let server = server().await;
    let all = (0..30).map(|i| {
        let code = format!("globalThis.n = (globalThis.n ?? 0) + {i}; n");
        server.post("/v1/execute", json!({ "code": code, "binding": "JAVASCRIPT" }))
    });
    for (i, answer) in futures::future::join_all(all).await.into_iter().enumerate() {
        assert_eq!(text(&answer.expect(200)), i.to_string());
    }
    assert!(e2e::processes(server.data.to_str().expect("UTF-8")).len() <= 3, "no worker is left");
}
