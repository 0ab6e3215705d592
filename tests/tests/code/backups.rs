//! Backups of contexts that execute meanwhile.

use crate::rig::{builder, context, run, server, started, text};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

fn sandkeep(arguments: &[&str], data: &Path, cache: &Path) -> Output {
    let mut command = Command::new(e2e::binary());
    command.args(arguments).arg("--data").arg(data).env("SANDKEEP_ENGINE_CACHE", cache);
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn packs(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).expect("readable").flatten();
    entries.map(|e| if e.path().is_dir() { packs(&e.path()) } else { 1 }).sum()
}

/// Each counts as often as it was executed; some are made and deleted, one is rolled back.
#[tokio::test]
async fn each_context_of_a_backup_is_what_its_record_says() {
    let server = server().await;
    let mut contexts = Vec::new();
    for sandbox in ["a", "a", "b"] {
        let id = context(&server, sandbox, "JAVASCRIPT").await;
        run(&server, sandbox, &id, "let n = 1; let block = []; n").await;
        contexts.push((sandbox, id));
    }
    let (at, id) = contexts[0].clone();
    let path = format!("/v1/sandboxes/{at}/contexts/{id}");
    run(&server, at, &id, "let before = 'kept'").await;
    server.post(&format!("{path}/checkpoints"), json!({ "name": "early" })).await.expect(201);
    run(&server, at, &id, "before = 'lost'; n += 2").await;

    let stop = AtomicBool::new(false);
    let (server_, stop_) = (&server, &stop);
    let busy = contexts[1..].iter().map(|(sandbox, id)| async move {
        while !stop_.load(Ordering::Relaxed) {
            // Packs of some size, which old ones are folded into.
            let code = "n += 1; block[n % 7] = new Array(20000).fill(n); n";
            run(server_, sandbox, id, code).await;
        }
    });
    let comings = async {
        while !stop.load(Ordering::Relaxed) {
            let id = context(&server, "b", "JAVASCRIPT").await;
            run(&server, "b", &id, "let n = 1; n").await;
            server.delete(&format!("/v1/sandboxes/b/contexts/{id}")).await.expect(204);
        }
    };
    let place = tempfile::tempdir().expect("a directory");
    let (data, dir, cache) = (server.data.clone(), place.path().to_owned(), crate::rig::cache());
    let written = tokio::task::spawn_blocking(move || {
        for n in 0..5 {
            sandkeep(&["backup", dir.join(format!("b{n}")).to_str().expect("text")], &data, &cache);
        }
    });
    let written = async {
        written.await.expect("written");
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(futures::future::join_all(busy), comings, written);
    for n in 0..5 {
        let file = place.path().join(format!("b{n}"));
        let target = place.path().join(format!("restored{n}"));
        // Where its engine is missing that is told, with what to do.
        let output = sandkeep(
            &["restore", file.to_str().expect("text")],
            &target,
            &place.path().join("no-engines"),
        );
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(said.contains("sandkeep engines install javascript"), "{said}");
        let restored = started(builder().data(&target)).await;
        for sandbox in ["a", "b"] {
            let list = restored.get(&format!("/v1/sandboxes/{sandbox}/contexts")).await.expect(200);
            for told in list["contexts"].as_array().expect("a list") {
                let id = told["id"].as_str().expect("an id");
                if told["executions"] == 0 {
                    continue;
                }
                let answer = run(&restored, sandbox, id, "n").await;
                assert_eq!(text(&answer), told["executions"].to_string(), "backup {n}: {answer}");
            }
        }
        let (at, id) = &contexts[0];
        assert_eq!(text(&run(&restored, at, id, "before").await), "'lost'");
        let path = format!("/v1/sandboxes/{at}/contexts/{id}");
        restored.post(&format!("{path}/checkpoints/early/rollback"), Value::Null).await.expect(200);
        assert_eq!(text(&run(&restored, at, id, "before").await), "'kept'");
    }
    // Where the engine is there nothing is told.
    let target = place.path().join("again");
    let file = place.path().join("b0");
    let output =
        sandkeep(&["restore", file.to_str().expect("text")], &target, &crate::rig::cache());
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(!said.contains("engines install"), "{said}");
    // What the backups kept from going goes with the next execution.
    for (sandbox, id) in &contexts {
        run(&server, sandbox, id, "n += 1").await;
        run(&server, sandbox, id, "n += 1").await;
    }
    let sandboxes = server.data.join("sandboxes");
    e2e::eventually("old packs are gone", crate::rig::SOON, || async {
        (packs(&sandboxes.join(e2e::Server::object("local", "a")).join("contexts")) < 20)
            .then_some(())
    })
    .await;
}
