//! Names and sizes: what peers get wrong in lists.

use crate::rig::{make, ok};
use e2e::Server;
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test]
async fn names_that_look_alike_are_two_or_none() {
    let server = Server::start().await;
    let longest = "n".repeat(63);
    let other = format!("{}m", "n".repeat(62));
    let fine = ["Ada", "ada", "a.b", "a..b", "a_b", "a-b", "...", "0", &longest, &other];
    for id in fine {
        make(&server, "Ada", id, json!({})).await;
        make(&server, "ada", id, json!({})).await;
    }
    for owner in ["Ada", "ada"] {
        let page = server.get(&format!("/v1/sandboxes?owner={owner}&sort=name")).await.expect(200);
        let seen: Vec<_> = page["sandboxes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["id"].as_str().unwrap())
            .collect();
        let mut sorted = fine.to_vec();
        sorted.sort_unstable();
        assert_eq!(seen, sorted);
    }
    let long = format!("/v1/sandboxes?owner=ada&prefix={}", "n".repeat(63));
    let page = server.get(&long).await.expect(200);
    assert_eq!(page["sandboxes"].as_array().map(Vec::len), Some(1));
    // Look-alikes, traversals, and what no name may be, are refused with rule, limit and character.
    let too_long = "n".repeat(64);
    for (id, said) in [
        ("%D0%B0da", "'а'"),
        ("e%CC%81", "only A-Z a-z 0-9"),
        ("%E2%80%AEada", "1 to 63"),
        ("a%2Fb", "'/'"),
        ("a%00", "1 to 63"),
        (".", "`.`"),
        ("%2e%2e", "`..`"),
        ("-a", "'-'"),
        ("a-", "'-'"),
        (&too_long, "63"),
        ("API", "reserved"),
    ] {
        let answer = server.put(&format!("/v1/sandboxes/{id}"), json!({})).await;
        // The client takes a bare dot away before it sends.
        if id == "." {
            assert_ne!(answer.status, 201);
            continue;
        }
        if answer.status == 404 {
            continue;
        }
        let error = answer.expect_error(400, "VALIDATION_FAILED");
        assert!(error["message"].as_str().unwrap().contains(said), "{id}: {error}");
    }
    let local = server.get("/v1/sandboxes").await.expect(200);
    assert_eq!(local["sandboxes"], json!([]));
}

#[tokio::test]
async fn every_verb_sees_all_of_many() {
    let server = Server::start().await;
    let puts = (0..1100).map(|n| {
        let path = format!("/v1/sandboxes/s{n:04}");
        let server = &server;
        async move { server.put(&path, json!({"labels": {"all": "yes"}})).await.expect(201) }
    });
    futures::stream::iter(puts).buffer_unordered(32).collect::<Vec<_>>().await;
    let told = ok(&server, &["ls", "--label", "all=yes", "--sort", "name"]);
    let seen: Vec<_> = told.lines().map(|l| l.split('\t').next().unwrap()).collect();
    let all: Vec<_> = (0..1100).map(|n| format!("s{n:04}")).collect();
    assert_eq!(seen, all);
    let json: Value =
        serde_json::from_str(&ok(&server, &["ls", "--json", "--all-owners"])).unwrap();
    assert_eq!(json.as_array().map(Vec::len), Some(1100));
    let told = ok(&server, &["touch", "--all"]);
    let touched: BTreeSet<_> = told.lines().map(str::to_owned).collect();
    assert_eq!(touched, all.iter().map(|id| format!("{id}\ttouched")).collect());
    let told = ok(&server, &["rm", "--yes", "--label", "all=yes"]);
    assert_eq!(told.lines().count(), 1100);
    assert_eq!(ok(&server, &["ls"]), "");
}
