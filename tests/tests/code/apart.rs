//! Contexts side by side: each has its own, also after kill -9.

use crate::rig::*;
use e2e::Server;
use serde_json::Value;
use std::collections::BTreeSet;

/// Asks each context at the same time; the JSON of its only result.
async fn each(server: &Server, contexts: &[(String, String)], code: &str) -> Vec<Value> {
    let all = contexts.iter().map(|(sandbox, id)| run(server, sandbox, id, code));
    let answers = futures::future::join_all(all).await;
    let json = |answer: &Value| {
        text(answer);
        answer["results"][0]["json"].clone()
    };
    answers.iter().map(json).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_contexts_of_python_share_nothing_but_files() {
    if !languages().iter().any(|lang| lang.binding == "PYTHON") {
        return;
    }
    let mut server = server().await;
    let mut contexts = Vec::new();
    for i in 0..30 {
        let sandbox = format!("s{}", i / 8);
        let id = context(&server, &sandbox, "PYTHON").await;
        contexts.push((sandbox, id));
    }
    let begin = contexts.iter().enumerate().map(|(i, (sandbox, id))| {
        let code = format!(
            "import os, random, uuid\nx = {i}\nos.environ['OWN'] = 'own {i}'\n\
             os.mkdir('d{i}'); os.chdir('d{i}')\nwith open('mine', 'w') as f: _ = f.write('{i}')\n\
             f = open('mine')\ndef own(): return x * 2"
        );
        let server = &server;
        async move { run(server, sandbox, id, &code).await }
    });
    for answer in futures::future::join_all(begin).await {
        assert!(answer.get("error").is_none(), "{answer}");
    }
    let mine = "[x, own(), os.environ['OWN'], os.getcwd(), open('mine').read(), \
                [k for k in os.environ if k.startswith('OWN')]]";
    let draw = "[str(random.random()), os.urandom(8).hex(), str(uuid.uuid4())]";
    let mut drawn = BTreeSet::new();
    for round in 0..2 {
        for (i, told) in each(&server, &contexts, mine).await.iter().enumerate() {
            let wanted = serde_json::json!([
                i + round,
                2 * (i + round),
                format!("own {i}"),
                format!("/workspace/d{i}"),
                i.to_string(),
                ["OWN"]
            ]);
            assert_eq!(*told, wanted, "round {round}");
        }
        for told in each(&server, &contexts, draw).await {
            for number in told.as_array().expect("a list") {
                assert!(drawn.insert(number.as_str().expect("text").to_owned()), "{told}");
            }
        }
        let read = each(&server, &contexts, "x += 1; f.read() or 'at the end'").await;
        server.kill();
        for (i, told) in read.iter().enumerate() {
            let wanted = if round == 0 { i.to_string() } else { "at the end".to_owned() };
            assert_eq!(*told, wanted, "round {round}");
        }
        server.restart().await;
    }
    assert_eq!(drawn.len(), 2 * 3 * 30);
    let last = each(&server, &contexts, "x").await;
    assert_eq!(last, (2..32).map(Value::from).collect::<Vec<_>>());
}

/// Random numbers of a language, from every source that it has.
fn draws(language: &str) -> &'static [&'static str] {
    match language {
        "javascript" => &[
            "Math.random()",
            "crypto.randomUUID()",
            "[...crypto.getRandomValues(new Uint8Array(16))]",
            "require('crypto').randomBytes(16).toString('hex')",
        ],
        "python" => &[
            "import random; random.random()",
            "random.Random().random(), random.SystemRandom().random()",
            "import os; os.urandom(16)",
            "import uuid; uuid.uuid4(), uuid.uuid1()",
            "import secrets; secrets.token_hex()",
            "import tempfile; tempfile.mktemp()",
        ],
        "ruby" => &[
            "rand",
            "Random.new.rand",
            "Random.bytes(16)",
            "[*1..60].shuffle",
            "require 'securerandom'; SecureRandom.uuid",
            "Random.urandom(16)",
        ],
        _ => &["rand()", "use List::Util 'shuffle'; join ' ', shuffle 1 .. 60"],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_differs_between_contexts_of_one_base() {
    let mut server = server().await;
    for lang in languages() {
        let (one, two) = (
            context(&server, lang.language, lang.binding).await,
            context(&server, lang.language, lang.binding).await,
        );
        let mut seen = BTreeSet::new();
        for code in draws(lang.language) {
            for id in [&one, &two] {
                let answer = run(&server, lang.language, id, code).await;
                assert!(seen.insert(text(&answer).to_owned()), "{}: {code}", lang.binding);
            }
            let body = serde_json::json!({ "code": code, "binding": lang.binding });
            let answer = server.post("/v1/execute", body).await.expect(200);
            if answer.get("error").is_none() {
                assert!(seen.insert(text(&answer).to_owned()), "{}: {code}", lang.binding);
            }
        }
        for (sandbox, id) in [(lang.language, &one), (lang.language, &two)] {
            server.kill();
            server.restart().await;
            let answer = run(&server, sandbox, id, draws(lang.language)[0]).await;
            assert!(seen.insert(text(&answer).to_owned()), "{}: again", lang.binding);
        }
    }
}
