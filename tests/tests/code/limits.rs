//! Limits are results, and the context is as before.

use crate::leaves::ticks;
use crate::rig::*;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_rolls_back_and_the_next_one_works() {
    let server = server().await;
    for lang in languages() {
        let id = context(&server, "s", lang.binding).await;
        run(&server, "s", &id, lang.set).await;
        let code = format!("{}\n{}", lang.add, lang.spin);
        let answer =
            ask(&server, "s", &id, json!({ "code": code, "timeoutMs": 300 })).await.expect(200);
        assert_eq!(answer["error"]["name"], "ExecutionLimitError", "{answer}");
        assert_eq!(answer["rolledBack"], true);
        assert_eq!(answer["executionCount"], 1, "it does not count");
        assert!(answer["durationMs"].as_u64().expect("ms") >= 300);
        let next = run(&server, "s", &id, lang.get).await;
        assert_eq!(text(&next), "42", "{}: the memory is as before", lang.binding);
        assert_eq!(told(&server, "s", &id).await["snapshot"]["stale"], false);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn much_output_is_cut_and_counted() {
    let server = server().await;
    let code = "for (let i = 0; i < 300; i++) console.log('x'.repeat(9999)); 'end'";
    let answer = execute(&server, "s", "JAVASCRIPT", code).await;
    assert_eq!(text(&answer), "'end'");
    assert_eq!(answer["logs"]["truncated"], true);
    assert_eq!(answer["usage"]["outputBytes"], 3_000_000);
    let kept: usize = answer["logs"]["entries"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|e| e["text"].as_str().expect("text").len())
        .sum();
    assert!(kept <= 1 << 20 && kept > 1 << 19, "{kept}");
    assert_eq!(answer["rolledBack"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_has_a_limit_and_the_context_lives_on() {
    let server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "let x = 41").await;
    let code = "x = 0; const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1))";
    let answer = run(&server, "s", &id, code).await;
    assert!(answer.get("error").is_some(), "{answer}");
    let wanted = if answer["rolledBack"] == true { "41" } else { "0" };
    assert_eq!(text(&run(&server, "s", &id, "x").await), wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_reaches_python() {
    if !languages().iter().any(|lang| lang.binding == "PYTHON") {
        return;
    }
    let server = server().await;
    let body = json!({ "code": "input() + input()", "binding": "PYTHON", "stdin": "a\nb\n" });
    let answer = server.post("/v1/sandboxes/s/execute", body).await.expect(200);
    assert_eq!(text(&answer), "'ab'");
    let body = json!({ "code": "input()", "binding": "PYTHON" });
    let answer = server.post("/v1/sandboxes/s/execute", body).await.expect(200);
    assert_eq!(answer["error"]["name"], "EOFError", "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn loops_that_were_ended_take_no_time_any_more() {
    let server = server().await;
    let mut contexts = Vec::new();
    for lang in languages() {
        contexts.push((lang.spin, context(&server, "s", lang.binding).await));
    }
    let all = (0..20).map(|i| {
        let (code, id) = &contexts[i % contexts.len()];
        ask(&server, "s", id, json!({ "code": code, "timeoutMs": 100 }))
    });
    for answer in futures::future::join_all(all).await {
        assert_eq!(answer.expect(200)["error"]["name"], "ExecutionLimitError");
    }
    let before = ticks(&server);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let took = ticks(&server) - before;
    assert!(took < 20, "{took} ticks in a second of rest");
}

/// Fills a file until that fails; how it failed, and how large it became.
const FILL: &str = "import errno, os
def fill(name):
    try:
        with open(name, 'wb', buffering=0) as f:
            while True:
                f.write(b'z' * 65536)
    except OSError as e:
        return errno.errorcode[e.errno], os.path.getsize(name)
";

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_s_quota_for_workspaces_holds_code_too() {
    if !languages().iter().any(|lang| lang.binding == "PYTHON") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("sandkeep.toml");
    let toml = "[quotas]\nworkspace-bytes = \"3MB\"\n[quotas.owners.eve]\nworkspace-bytes = 5\n";
    std::fs::write(&file, toml).expect("written");
    let server = started(builder().args(&["--config", file.to_str().expect("text")])).await;
    let s = context(&server, "s", "PYTHON").await;
    run(&server, "s", &s, &format!("{FILL}x = 41")).await;
    let full = run(&server, "s", &s, "x += 1; fill('/workspace/a')").await;
    assert_eq!(text(&full), "('ENOSPC', 3000000)");
    let refusal = |owner: &'static str| {
        let server = &server;
        move || async move {
            let path = format!("/v1/events?type=quota.refused&owner={owner}");
            let page = server.get(&path).await.expect(200);
            page["events"].as_array().expect("a list").first().map(|event| event["data"].clone())
        }
    };
    let told = e2e::eventually("the refusal is told", SOON, refusal("local")).await;
    assert_eq!((&told["quota"], &told["limit"]), (&json!("workspaceBytes"), &json!(3_000_000)));
    // By the last count.
    assert!(told["current"].as_u64().is_some_and(|now| now <= 3_000_000), "{told}");
    // Also with what the next ones write.
    assert_eq!(text(&run(&server, "s", &s, "fill('/workspace/b')").await), "('ENOSPC', 0)");
    let put = server.send("PUT", "/v1/sandboxes/s/files/c", &[], Some(vec![1])).await;
    let put = put.expect("an answer");
    assert!([409, 500].contains(&put.status), "{}", put.text());
    // Memory is no part of it; what is freed is there at once, in the same execution too.
    assert_eq!(text(&run(&server, "s", &s, "x").await), "42");
    let again = "os.truncate('/workspace/a', 1000000); fill('/workspace/b')";
    assert_eq!(text(&run(&server, "s", &s, again).await), "('ENOSPC', 2000000)");
    run(&server, "s", &s, "os.remove('/workspace/a')").await;
    assert_eq!(text(&run(&server, "s", &s, "fill('/workspace/c')").await), "('ENOSPC', 1000000)");
    // Another sandbox of the same owner has what that one leaves, once it was counted.
    let other = context(&server, "other", "PYTHON").await;
    run(&server, "other", &other, FILL).await;
    e2e::eventually("it is counted", SOON, || async {
        let full = run(&server, "other", &other, "fill('/workspace/a')").await;
        let (text, empty) = (text(&full).to_owned(), "os.remove('/workspace/a')");
        run(&server, "other", &other, empty).await;
        (text == "('ENOSPC', 0)").then_some(())
    })
    .await;
    run(&server, "s", &s, "os.remove('/workspace/b'); os.remove('/workspace/c')").await;
    e2e::eventually("there is room again", SOON, || async {
        let full = run(&server, "other", &other, "fill('/workspace/a')").await;
        (text(&full) == "('ENOSPC', 3000000)").then_some(())
    })
    .await;
    // Others have their own.
    let body = json!({ "code": format!("{FILL}fill('/workspace/a')"), "binding": "PYTHON" });
    let answer = server.post("/v1/sandboxes/s/execute?owner=eve", body).await.expect(200);
    assert_eq!(text(&answer), "('ENOSPC', 5)");
    // And of a file that is sent.
    let put = server.send("PUT", "/v1/sandboxes/z/files/f?owner=fay", &[], Some(vec![1; 4 << 20]));
    put.await.expect("an answer").expect_error(409, "QUOTA_EXCEEDED");
    let told = e2e::eventually("the refusal is told", SOON, refusal("fay")).await;
    assert_eq!(told["quota"], "workspaceBytes");
}
