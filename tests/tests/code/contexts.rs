//! Making, listing and deleting contexts; what requests may say.

use crate::rig::*;
use e2e::{Builder, Server};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn contexts_are_made_listed_and_deleted() {
    let server = server().await;
    server.get("/v1/sandboxes/s/contexts").await.expect_error(404, "SANDBOX_NOT_FOUND");
    let made = server
        .post("/v1/sandboxes/s/contexts", json!({ "binding": "JAVASCRIPT" }))
        .await
        .expect(201);
    let id = made["id"].as_str().expect("an id");
    assert_eq!(made["binding"], "JAVASCRIPT");
    assert_eq!(made["language"], "javascript");
    assert_eq!((&made["cwd"], &made["executions"]), (&json!("/workspace"), &json!(0)));
    assert_eq!(made["snapshot"], Value::Null);
    assert!(!made["engine"].as_str().expect("text").is_empty());
    let second = context(&server, "s", "JAVASCRIPT").await;
    let list = server.get("/v1/sandboxes/s/contexts").await.expect(200);
    let ids: Vec<_> =
        list["contexts"].as_array().expect("a list").iter().map(|c| &c["id"]).collect();
    assert_eq!(ids, [&json!(id), &json!(second)], "oldest first");
    let info = server.get("/v1/sandboxes/s").await.expect(200);
    assert_eq!(info["contexts"], list["contexts"]);
    assert_eq!(info["running"], false, "code starts no instance");
    assert_eq!(told(&server, "s", id).await, list["contexts"][0]);

    let path = format!("/v1/sandboxes/s/contexts/{id}");
    server.delete(&path).await.expect(204);
    server.delete(&path).await.expect_error(404, "CONTEXT_NOT_FOUND");
    let gone = server.get(&path).await.expect_error(404, "CONTEXT_NOT_FOUND");
    assert_eq!(gone["context"]["contextId"], id);
    ask(&server, "s", id, json!({ "code": "1" })).await.expect_error(404, "CONTEXT_NOT_FOUND");
    ask(&server, "other", &second, json!({ "code": "1" }))
        .await
        .expect_error(404, "SANDBOX_NOT_FOUND");
    server.get("/v1/sandboxes/other").await.expect_error(404, "SANDBOX_NOT_FOUND");
    // Another sandbox's context is nobody's.
    context(&server, "other", "JAVASCRIPT").await;
    ask(&server, "other", &second, json!({ "code": "1" }))
        .await
        .expect_error(404, "CONTEXT_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_context_is_made_once_and_used_again() {
    let server = server().await;
    for lang in languages() {
        execute(&server, "s", lang.binding, lang.set).await;
        let answer = execute(&server, "s", lang.binding, lang.get).await;
        assert_eq!(text(&answer), "42", "{answer}");
        assert_eq!(answer["executionCount"], 2);
        assert_eq!(answer["language"], lang.language);
        assert_eq!(answer["rolledBack"], false);
        assert_eq!(answer["code"], lang.get);
        let by_language = json!({ "code": lang.get, "language": lang.language });
        let answer = server.post("/v1/sandboxes/s/execute", by_language).await.expect(200);
        assert_eq!(answer["executionCount"], 3, "the same one");
    }
    let list = server.get("/v1/sandboxes/s/contexts").await.expect(200);
    assert_eq!(list["contexts"].as_array().expect("a list").len(), languages().len());
    // An own one of the binding that is older is its default.
    let own = context(&server, "t", "JAVASCRIPT").await;
    let answer = execute(&server, "t", "JAVASCRIPT", "1").await;
    assert_eq!(answer["context"]["id"], own);
    // The context counts more than the binding.
    let body = json!({ "code": "1", "contextId": own, "binding": "NOBODY" });
    let answer = server.post("/v1/sandboxes/t/execute", body).await.expect(200);
    assert_eq!(answer["context"]["executions"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_request_is_named() {
    let server = server().await;
    let contexts = "/v1/sandboxes/s/contexts";
    let refused = async |path: &str, body: Value, field: &str| {
        let error = server.post(path, body).await.expect_error(400, "VALIDATION_FAILED");
        assert_eq!(error["context"]["field"], field, "{error}");
    };
    refused(contexts, json!({}), "binding").await;
    refused(contexts, json!({ "binding": "NOBODY" }), "binding").await;
    refused(contexts, json!({ "binding": "__proto__" }), "binding").await;
    refused(contexts, json!({ "language": "cobol" }), "language").await;
    refused(contexts, json!({ "binding": "JAVASCRIPT", "cwd": "/etc" }), "cwd").await;
    refused(contexts, json!({ "binding": "JAVASCRIPT", "cwd": "/workspace/../etc" }), "cwd").await;
    refused(contexts, json!({ "binding": "JAVASCRIPT", "envVars": { "1": "x" } }), "envVars").await;
    refused(contexts, json!({ "binding": "JAVASCRIPT", "surprise": 1 }), "surprise").await;
    let run = "/v1/sandboxes/s/execute";
    refused(run, json!({ "code": "1" }), "binding").await;
    refused(run, json!({ "code": " \n", "binding": "JAVASCRIPT" }), "code").await;
    refused(run, json!({ "binding": "JAVASCRIPT" }), "code").await;
    refused(run, json!({ "code": "1", "binding": "JAVASCRIPT", "cwd": "/workspace" }), "cwd").await;
    refused(run, json!({ "code": "1", "binding": "JAVASCRIPT", "timeoutMs": 0 }), "timeoutMs")
        .await;
    refused(
        run,
        json!({ "code": "1", "binding": "JAVASCRIPT", "envVars": { "a-b": "x" } }),
        "envVars",
    )
    .await;
    refused("/v1/execute", json!({ "code": "1" }), "binding").await;
    refused("/v1/execute", json!({ "code": "1", "contextId": "x" }), "contextId").await;
    let large = json!({ "code": "1".repeat((64 << 10) + 1), "binding": "JAVASCRIPT" });
    server.post(run, large).await.expect_error(413, "REQUEST_TOO_LARGE");
    server.get("/v1/sandboxes/s").await.expect_error(404, "SANDBOX_NOT_FOUND");
    let own = context(&server, "s", "JAVASCRIPT").await;
    for field in ["contextId", "binding"] {
        let path = format!("/v1/sandboxes/s/contexts/{own}/execute");
        refused(&path, json!({ "code": "1", field: "JAVASCRIPT" }), field).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_has_eight_contexts_and_no_more() {
    let server = server().await;
    let mut made = Vec::new();
    let tries = (0..20)
        .map(|_| server.post("/v1/sandboxes/s/contexts", json!({ "binding": "JAVASCRIPT" })));
    for answer in futures::future::join_all(tries).await {
        match answer.status {
            201 => made.push(answer.json()["id"].as_str().expect("an id").to_owned()),
            _ => drop(answer.expect_error(409, "TOO_MANY_CONTEXTS")),
        }
    }
    assert_eq!(made.len(), 8);
    let fork = format!("/v1/sandboxes/s/contexts/{}/fork", made[0]);
    server.post(&fork, Value::Null).await.expect_error(409, "TOO_MANY_CONTEXTS");
    server.delete(&format!("/v1/sandboxes/s/contexts/{}", made[7])).await.expect(204);
    context(&server, "s", "JAVASCRIPT").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_are_layered_and_null_removes() {
    let server = server().await;
    let env = "/v1/sandboxes/s/env";
    server.post(env, json!({ "envVars": { "V": "sandbox" } })).await.expect(204);
    server
        .post(env, json!({ "envVars": { "1": "x" } }))
        .await
        .expect_error(400, "VALIDATION_FAILED");
    for lang in languages() {
        let plain = context(&server, "s", lang.binding).await;
        let body = json!({ "binding": lang.binding, "envVars": { "V": "context" } });
        let own = server.post("/v1/sandboxes/s/contexts", body).await.expect(201);
        let own = own["id"].as_str().expect("an id");
        let value = async |context: &str, vars: Value| {
            let body = json!({ "code": lang.env, "envVars": vars });
            let answer = ask(&server, "s", context, body).await.expect(200);
            answer["results"][0]["json"].clone()
        };
        assert_eq!(value(&plain, json!({})).await, "sandbox", "{}", lang.binding);
        assert_eq!(value(own, json!({})).await, "context");
        assert_eq!(value(own, json!({ "V": "call" })).await, "call");
        assert_eq!(value(own, json!({ "V": null })).await, "none");
        assert_eq!(value(own, json!({})).await, "context", "a call changes nothing for the next");
    }
    server.post(env, json!({ "envVars": { "V": null, "W": "1" } })).await.expect(204);
    let info = server.get("/v1/sandboxes/s").await.expect(200);
    assert_eq!(info["envVars"], json!({ "W": "1" }));
    // What all executions are given has an end, and does not come by in small portions.
    let half = "x".repeat(400 << 10);
    let set = async |name: &str| server.post(env, json!({ "envVars": { name: half } })).await;
    set("A").await.expect(204);
    set("B").await.expect(204);
    let error = set("C").await.expect_error(400, "VALIDATION_FAILED");
    assert_eq!(error["context"]["field"], "envVars", "{error}");
    set("B").await.expect(204);
    let answer = execute(&server, "s", "JAVASCRIPT", "process.env.A.length").await;
    assert_eq!(text(&answer), (400 << 10).to_string());
}

/// The working directory as a value, and a file `here` in it.
fn here(language: &str) -> &'static str {
    match language {
        "javascript" => "require('fs').writeFileSync('here', 'x'); process.cwd()",
        "python" => "import os; open('here', 'w').close(); os.getcwd()",
        "ruby" => "File.write('here', 'x'); Dir.pwd",
        _ => "use Cwd; open(my $f, '>', 'here') or die $!; close $f; getcwd()",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_begins_in_the_directory_that_is_given() {
    let mut server = server().await;
    let made = async |server: &Server, lang: &Lang, cwd: &str| {
        let body = json!({ "binding": lang.binding, "cwd": cwd });
        let path = format!("/v1/sandboxes/{}/contexts", lang.language);
        let made = server.post(&path, body).await.expect(201);
        (made["id"].as_str().expect("an id").to_owned(), made["cwd"].clone())
    };
    let run_here = async |server: &Server, lang: &Lang, id: &str, wanted: &str| {
        let (s, file) = (lang.language, wanted.strip_prefix("/workspace").expect("below it"));
        let file = place(server, s, &format!(".{file}/here"));
        assert!(!file.exists(), "{s} {wanted}");
        let answer = run(server, s, id, here(s)).await;
        text(&answer);
        assert_eq!(answer["results"][0]["json"], wanted, "{s}");
        assert_eq!(answer["context"]["cwd"], wanted, "{s}");
        assert_eq!(told(server, s, id).await["cwd"], wanted, "{s}");
        std::fs::remove_file(file).unwrap_or_else(|e| panic!("{s} {wanted}: {e}"));
    };
    let mut contexts = Vec::new();
    for lang in languages() {
        let mut ids = Vec::new();
        let ways = ["/workspace/own/deep", "own/deep", "/workspace/x/../own/./deep/"];
        for cwd in ways {
            let (id, told) = made(&server, lang, cwd).await;
            assert_eq!(told, "/workspace/own/deep", "{cwd}");
            ids.push(id);
        }
        // It need not be there before code runs.
        std::fs::create_dir_all(place(&server, lang.language, "own/deep")).expect("made");
        for id in &ids {
            run_here(&server, lang, id, "/workspace/own/deep").await;
        }
        contexts.push((lang, ids));
    }
    server.kill();
    server.restart().await;
    for (lang, ids) in &contexts {
        let s = lang.language;
        run_here(&server, lang, &ids[0], "/workspace/own/deep").await;
        let fork = format!("/v1/sandboxes/{s}/contexts/{}/fork", ids[0]);
        let fork = server.post(&fork, Value::Null).await.expect(201);
        run_here(&server, lang, fork["id"].as_str().expect("an id"), "/workspace/own/deep").await;
        // One that is not there any more, or never was, is no directory, or leads out.
        std::fs::remove_dir(place(&server, s, "own/deep")).expect("removed");
        run_here(&server, lang, &ids[1], "/workspace").await;
        std::fs::write(place(&server, s, "own/deep"), "a file").expect("written");
        run_here(&server, lang, &ids[2], "/workspace").await;
        std::os::unix::fs::symlink("/etc", place(&server, s, "out")).expect("linked");
        for cwd in ["out", "never/there"] {
            let (id, told) = made(&server, lang, cwd).await;
            assert_eq!(told, format!("/workspace/{cwd}"));
            run_here(&server, lang, &id, "/workspace").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_engines_says_what_to_install() {
    let empty = tempfile::tempdir().expect("a directory");
    let cache = empty.path().to_str().expect("UTF-8");
    let server = Builder::default().args(&["--engine-cache", cache]).start().await;
    let talk = server.talk().join("\n");
    let bindings = server.get("/v1/bindings").await.expect(200);
    let bindings = bindings["bindings"].as_array().expect("a list").clone();
    let names: Vec<_> = bindings.iter().map(|b| b["binding"].as_str().expect("text")).collect();
    assert_eq!(names, ["PYTHON", "PYTHON_DATA", "JAVASCRIPT", "RUBY", "PERL"], "{talk}");
    assert!(bindings.iter().all(|b| b["installed"] == false && b["engine"] == Value::Null));
    for path in ["/v1/sandboxes/s/contexts", "/v1/sandboxes/s/execute", "/v1/execute"] {
        let mut body = json!({ "binding": "RUBY" });
        if path.ends_with("execute") {
            body["code"] = json!("1");
        }
        let error = server.post(path, body).await.expect_error(422, "ENGINE_NOT_INSTALLED");
        assert!(error["message"].as_str().expect("text").contains("sandkeep engines install ruby"));
        assert_eq!(error["context"]["command"], "sandkeep engines install ruby");
    }
    // The rest works.
    assert_eq!(server.exec("s", &["echo", "x"]).await["stdout"], "x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn further_bindings_come_from_the_configuration() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("sandkeep.toml");
    std::fs::write(&file, "[bindings]\nNODE_LIKE = \"javascript\"\n").expect("written");
    let server = started(builder().args(&["--config", file.to_str().expect("UTF-8")])).await;
    let answer = execute(&server, "s", "NODE_LIKE", "6 * 7").await;
    assert_eq!(text(&answer), "42");
    let id = answer["context"]["id"].as_str().expect("an id");
    assert_eq!(told(&server, "s", id).await["binding"], "NODE_LIKE");
    let by_language = json!({ "code": "1", "language": "javascript" });
    let answer = server.post("/v1/sandboxes/s/execute", by_language).await.expect(200);
    assert_ne!(answer["context"]["id"], id, "the first binding of a language is its own");
}
