//! Pages, filters, cursors; every client verb sees all.

use crate::rig::{make, start, stop};
use e2e::{Server, binary};
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;

async fn fill(server: &Server) {
    let puts = (0..250).map(|n| {
        let prefix = if n % 5 == 0 { "five" } else { "other" };
        let path = format!("/v1/sandboxes/{prefix}-{n:03}");
        async move { server.put(&path, json!({})).await.expect(201) }
    });
    futures::stream::iter(puts).buffer_unordered(16).collect::<Vec<_>>().await;
}

/// All pages of a list, in order.
async fn pages(server: &Server, query: &str) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.get(&format!("/v1/sandboxes?{query}{cursor}")).await.expect(200);
        pages.push(page["sandboxes"].as_array().expect("a list").clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return pages,
        }
        assert!(pages.len() < 1000, "it never ends");
    }
}

fn ids(pages: &[Vec<Value>]) -> Vec<&str> {
    pages.iter().flatten().map(|row| row["id"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn pages_have_everything_once() {
    let server = Server::start().await;
    fill(&server).await;
    let sevens = pages(&server, "limit=7").await;
    assert_eq!(sevens.len(), 36);
    assert!(sevens[..35].iter().all(|page| page.len() == 7));
    let all = ids(&sevens);
    assert_eq!(all.len(), 250);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 250);
    let directory = server.get("/users/local/sandboxes").await.expect(200);
    let directory: Vec<_> =
        directory.as_array().unwrap().iter().map(|e| e["session"].as_str().unwrap()).collect();
    assert_eq!(all, directory);
    // Filters come before the limit: no short pages.
    let fives = pages(&server, "limit=7&prefix=five-").await;
    assert_eq!(fives.len(), 8);
    assert!(fives[..7].iter().all(|page| page.len() == 7));
    assert_eq!(ids(&fives).len(), 50);
    assert!(ids(&fives).iter().all(|id| id.starts_with("five-")));
    // Case counts, and wildcards are letters.
    for prefix in ["Five", "fiv%25", "five_", "*"] {
        assert_eq!(ids(&pages(&server, &format!("prefix={prefix}")).await).len(), 0, "{prefix}");
    }
    // The last page is not followed by an empty one.
    assert_eq!(pages(&server, "limit=125").await.len(), 2);
    assert_eq!(pages(&server, "limit=250").await.len(), 1);

    let told = cli(&server, &["ls"]);
    assert_eq!(told.lines().filter(|l| l.contains("-")).count(), 250, "{told}");
    let json: Value = serde_json::from_str(&cli(&server, &["ls", "--json"])).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(250));
    let fives = cli(&server, &["ls", "--prefix", "five-"]);
    assert_eq!(fives.lines().filter(|l| l.contains("five-")).count(), 50);
}

fn cli(server: &Server, args: &[&str]) -> String {
    let output = std::process::Command::new(binary())
        .args(args)
        .env("SANDKEEP_URL", &server.url)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[tokio::test]
async fn a_state_filter_follows_the_state() {
    let server = Server::start().await;
    make(&server, "never", json!({})).await;
    start(&server, "runs").await;
    start(&server, "stopped").await;
    stop(&server, "stopped").await;
    assert_eq!(ids(&pages(&server, "state=running").await), ["runs"]);
    assert_eq!(ids(&pages(&server, "state=stopped").await), ["stopped"]);
    assert_eq!(ids(&pages(&server, "limit=1").await), ["never", "runs", "stopped"]);
    let all = pages(&server, "").await;
    assert_eq!(all[0][0]["state"], Value::Null);
    assert_eq!(all[0][1]["running"], true);
    assert_eq!(all[0][2]["reason"], "stopped");
    for state in ["active", "RUNNING", "", "running,stopped"] {
        let error = server.get(&format!("/v1/sandboxes?state={state}")).await;
        let error = error.expect_error(400, "VALIDATION_FAILED");
        assert!(error["message"].as_str().unwrap().contains("state"), "{error}");
    }
}

#[tokio::test]
async fn a_cursor_of_another_list_is_refused() {
    let server = Server::start().await;
    for id in ["a", "b", "c"] {
        make(&server, id, json!({})).await;
    }
    let page = server.get("/v1/sandboxes?limit=1").await.expect(200);
    let cursor = page["nextCursor"].as_str().expect("more").to_owned();
    let foreign = server.get(&format!("/v1/sandboxes?limit=1&owner=bob&cursor={cursor}")).await;
    foreign.expect_error(400, "VALIDATION_FAILED");
    let filtered = format!("/v1/sandboxes?limit=1&prefix=b&cursor={cursor}");
    server.get(&filtered).await.expect_error(400, "VALIDATION_FAILED");
    for garbage in ["x", "", "AAAA", "%00", &cursor[1..], &cursor.to_uppercase(), &"a".repeat(5000)]
    {
        let answer = server.get(&format!("/v1/sandboxes?limit=1&cursor={garbage}")).await;
        let error = answer.expect_error(400, "VALIDATION_FAILED");
        assert!(error["message"].as_str().unwrap().contains("cursor"), "{error}");
    }
    for limit in ["0", "1001", "-1", "x", "1.5"] {
        let answer = server.get(&format!("/v1/sandboxes?limit={limit}")).await;
        answer.expect_error(400, "VALIDATION_FAILED");
    }
    // The true one still works, also when its own sandbox is gone.
    server.delete("/v1/sandboxes/a").await.expect(204);
    let next = server.get(&format!("/v1/sandboxes?limit=5&cursor={cursor}")).await.expect(200);
    assert_eq!(next["sandboxes"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn pages_stay_whole_while_sandboxes_come_and_go() {
    let server = Server::start().await;
    let stay: Vec<String> = (0..60).map(|n| format!("stay-{n:02}")).collect();
    for id in &stay {
        make(&server, id, json!({})).await;
        make(&server, &format!("go-{id}"), json!({})).await;
    }
    let change = async {
        for id in &stay {
            server.delete(&format!("/v1/sandboxes/go-{id}")).await.expect(204);
            make(&server, &format!("new-{id}"), json!({})).await;
        }
    };
    let walk = async {
        for _ in 0..5 {
            let pages = pages(&server, "limit=7").await;
            let seen: Vec<_> = ids(&pages)
                .into_iter()
                .filter(|id| id.starts_with("stay-"))
                .map(str::to_owned)
                .collect();
            assert_eq!(seen, stay);
        }
    };
    tokio::join!(change, walk);
}
