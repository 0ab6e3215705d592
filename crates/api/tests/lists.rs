//! Lists of sandboxes: filters, orders, cursors, labels.

mod common;

use common::Bench;
use serde_json::{Value, json};

async fn make(bench: &Bench, owner: &str, id: &str, body: Value) {
    let path = format!("/v1/sandboxes/{id}?owner={owner}");
    let answer = bench.json("PUT", &path, body.to_string()).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
}

/// All pages of a list: `owner/id` each.
async fn walk(bench: &Bench, path: &str, limit: u32) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let mark = if path.contains('?') { '&' } else { '?' };
        let answer = bench.plain("GET", &format!("{path}{mark}limit={limit}{cursor}")).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.json());
        let page = answer.json();
        let rows = page["sandboxes"].as_array().unwrap();
        assert!(rows.len() <= limit as usize);
        all.extend(
            rows.iter()
                .map(|r| format!("{}/{}", r["owner"].as_str().unwrap(), r["id"].as_str().unwrap())),
        );
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
        assert!(all.len() < 1000, "it never ends");
    }
}

#[tokio::test]
async fn labels_are_set_changed_shown_and_found_by() {
    let bench = Bench::new().await;
    make(&bench, "ada", "one", json!({"labels": {"job": "42", "env": "prod", "old": ""}})).await;
    make(&bench, "ada", "two", json!({"labels": {"job": "42"}})).await;
    make(&bench, "ada", "three", json!({})).await;
    make(&bench, "bob", "one", json!({"labels": {"job": "42"}})).await;

    let list =
        async |query: &str| walk(&bench, &format!("/v1/sandboxes?owner=ada{query}"), 2).await;
    assert_eq!(list("&label=job=42").await, ["ada/one", "ada/two"]);
    assert_eq!(list("&label=job%3D42&label=env=prod").await, ["ada/one"]);
    assert_eq!(list("&label=job=42&label=job=43").await, [""; 0]);
    assert_eq!(list("&label=job=4").await, [""; 0]);
    assert_eq!(list("&label=old=").await, ["ada/one"]);
    assert_eq!(list("&label=job=42&sort=-name").await, ["ada/two", "ada/one"]);
    assert_eq!(list("&label=job=42&sort=-active&prefix=t").await, ["ada/two"]);
    let all = walk(&bench, "/v1/admin/sandboxes?label=job=42&sort=name", 1).await;
    assert_eq!(all, ["ada/one", "ada/two", "bob/one"]);

    // The same labels are no conflict, others are; PATCH changes them.
    let path = "/v1/sandboxes/one?owner=ada";
    let same = json!({"labels": {"job": "42", "env": "prod", "old": ""}}).to_string();
    assert_eq!(bench.json("PUT", path, same).await.status, 200);
    let other = bench.json("PUT", path, r#"{"labels":{"job":"42"}}"#).await;
    assert_eq!(other.error(409, "SETTINGS_CONFLICT")["context"]["field"], "labels");
    let patch = json!({"labels": {"job": "43", "old": null, "new": "é"}}).to_string();
    let info = bench.json("PATCH", path, patch).await.json();
    assert_eq!(info["labels"], json!({"env": "prod", "job": "43", "new": "é"}));
    assert_eq!(bench.plain("GET", path).await.json()["labels"], info["labels"]);
    assert_eq!(list("&label=job=42").await, ["ada/two"]);
    assert_eq!(list("&label=new=%C3%A9").await, ["ada/one"]);
    let page = bench.plain("GET", "/v1/sandboxes?owner=ada&prefix=one").await.json();
    assert_eq!(page["sandboxes"][0]["labels"], info["labels"]);
    assert_eq!(bench.json("PATCH", path, r#"{"pids":50}"#).await.json()["labels"], info["labels"]);

    // They go with the sandbox, and one of the same name has none of them.
    assert_eq!(bench.plain("DELETE", path).await.status, 204);
    assert_eq!(list("&label=env=prod").await, [""; 0]);
    make(&bench, "ada", "one", json!({})).await;
    assert_eq!(list("&label=env=prod").await, [""; 0]);
    assert_eq!(bench.plain("GET", path).await.json()["labels"], json!({}));

    for bad in
        [json!({"a b": "x"}), json!({"": "x"}), json!({"a": "\n"}), json!({"a": "v".repeat(256)})]
    {
        let body = json!({"labels": bad}).to_string();
        bench.json("PUT", "/v1/sandboxes/bad", body.clone()).await.invalid("labels");
        bench.json("PATCH", path, body).await.invalid("labels");
    }
    bench.json("PATCH", path, r#"{"labels":{"a":1}}"#).await.invalid("labels.a");
    bench.json("PUT", "/v1/sandboxes/bad", r#"{"labels":{"a":null}}"#).await.invalid("labels.a");
    bench.plain("GET", "/v1/sandboxes/bad").await.error(404, "SANDBOX_NOT_FOUND");
    let mut many = serde_json::Map::new();
    many.extend((0..33).map(|n| (format!("l{n}"), json!("x"))));
    let body = json!({"labels": many}).to_string();
    bench.json("PUT", "/v1/sandboxes/bad", body).await.invalid("labels");
}

#[tokio::test]
async fn every_order_and_filter_has_everything_once() {
    let bench = Bench::new().await;
    let mut all = Vec::new();
    for owner in ["ada", "a", "a-b", "Ada"] {
        for id in ["x", "y.z", "X", "x-1", "x1"] {
            make(&bench, owner, id, json!({})).await;
            all.push(format!("{owner}/{id}"));
        }
    }
    let made = all.clone();
    all.sort();
    let turned = |list: &[String]| list.iter().rev().cloned().collect::<Vec<_>>();
    for limit in [1, 3, 19, 20, 21] {
        let walk =
            async |query: &str| walk(&bench, &format!("/v1/admin/sandboxes{query}"), limit).await;
        assert_eq!(walk("?sort=name").await, all);
        assert_eq!(walk("?sort=-name").await, turned(&all));
        // Several are of one millisecond, and those are ordered by name.
        for sort in ["created", "active"] {
            let forth = walk(&format!("?sort={sort}")).await;
            let mut sorted = forth.clone();
            sorted.sort();
            assert_eq!(sorted, all);
            assert_eq!(walk(&format!("?sort=-{sort}")).await, turned(&forth));
        }
        assert_eq!(
            walk("?owner=Ada&sort=name").await,
            ["Ada/X", "Ada/x", "Ada/x-1", "Ada/x1", "Ada/y.z"]
        );
        assert_eq!(walk("?owner=nobody").await, [""; 0]);
        assert_eq!(walk("?prefix=x-&sort=name").await, ["Ada/x-1", "a-b/x-1", "a/x-1", "ada/x-1"]);
    }
    assert_eq!(
        walk(&bench, "/v1/sandboxes?owner=a&sort=-name&prefix=x", 1).await,
        ["a/x1", "a/x-1", "a/x"]
    );
    assert_eq!(
        walk(&bench, "/v1/sandboxes?owner=a&sort=name&prefix=x", 9).await,
        ["a/x", "a/x-1", "a/x1"]
    );

    // Between the first and the last, both left out.
    let page = bench.plain("GET", "/v1/admin/sandboxes?limit=1000").await.json();
    let rows = page["sandboxes"].as_array().unwrap();
    let times: Vec<i64> = rows.iter().map(|r| r["createdAt"].as_i64().unwrap()).collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    let within = times.iter().filter(|t| **t > first && **t < last).count();
    for sort in ["created", "-created", "active", "-active", "name", "-name"] {
        let span = format!("createdAfter={first}&createdBefore={last}&sort={sort}");
        assert_eq!(walk(&bench, &format!("/v1/admin/sandboxes?{span}"), 3).await.len(), within);
        let span = format!("activeAfter={first}&activeBefore={last}&sort={sort}");
        assert_eq!(walk(&bench, &format!("/v1/admin/sandboxes?{span}"), 3).await.len(), within);
        let none = format!("createdBefore={first}&activeAfter=2026-01-01T00:00:00Z&sort={sort}");
        assert_eq!(walk(&bench, &format!("/v1/admin/sandboxes?{none}"), 3).await.len(), 0);
        let whole = format!("createdAfter=2020-01-01T00:00:00+02:00&sort={sort}");
        assert_eq!(
            walk(&bench, &format!("/v1/admin/sandboxes?{whole}"), 7).await.len(),
            made.len()
        );
    }
}

#[tokio::test]
async fn a_cursor_is_of_its_list_alone() {
    let bench = Bench::new().await;
    for id in ["a", "b", "c"] {
        make(&bench, "ada", id, json!({"labels": {"l": "1", "m": "2"}})).await;
        make(&bench, "bob", id, json!({"labels": {"l": "1"}})).await;
    }
    let lists = [
        "/v1/sandboxes?owner=ada",
        "/v1/sandboxes?owner=bob",
        "/v1/sandboxes?owner=ada&label=l=1",
        "/v1/sandboxes?owner=ada&label=l=1&label=m=2",
        "/v1/sandboxes?owner=ada&sort=-created",
        "/v1/sandboxes?owner=ada&sort=active",
        "/v1/sandboxes?owner=ada&sort=name",
        "/v1/sandboxes?owner=ada&createdAfter=5",
        "/v1/sandboxes?owner=ada&activeAfter=5",
        "/v1/admin/sandboxes?sort=created",
        "/v1/admin/sandboxes?sort=name",
        "/v1/admin/sandboxes?label=l=1",
    ];
    let mut cursors = Vec::new();
    for list in lists {
        let page = bench.plain("GET", &format!("{list}&limit=1")).await.json();
        cursors.push(page["nextCursor"].as_str().unwrap_or_else(|| panic!("{list}")).to_owned());
    }
    for (at, list) in lists.iter().enumerate() {
        for (of, cursor) in cursors.iter().enumerate() {
            let answer = bench.plain("GET", &format!("{list}&limit=1&cursor={cursor}")).await;
            match at == of {
                true => assert_eq!(answer.status, 200),
                false => drop(answer.invalid("cursor")),
            }
        }
        for broken in ["", "x", "AAAA", "%00", &cursors[at][1..], &"A".repeat(1000)] {
            bench.plain("GET", &format!("{list}&cursor={broken}")).await.invalid("cursor");
        }
    }
    // The order in which labels are named is no other list, and the owner's own list is the same
    // by either route.
    let turned = "/v1/sandboxes?owner=ada&label=m=2&label=l=1&limit=1";
    let answer = bench.plain("GET", &format!("{turned}&cursor={}", cursors[3])).await;
    assert_eq!(answer.json()["sandboxes"][0]["id"], "b");
    let admin = format!("/v1/admin/sandboxes?owner=ada&cursor={}", cursors[0]);
    assert_eq!(bench.plain("GET", &admin).await.json()["sandboxes"][0]["id"], "b");
}

#[tokio::test]
async fn what_is_wrong_in_a_query_is_named() {
    let bench = Bench::new().await;
    for list in ["/v1/sandboxes", "/v1/admin/sandboxes"] {
        for (field, query) in [
            ("sort", "sort=size"),
            ("sort", "sort="),
            ("sort", "sort=name&sort=name"),
            ("state", "state=active"),
            ("label", "label=job"),
            ("label", "label="),
            ("label", "label==x"),
            ("label", "label=a%20b=x"),
            ("label", "label=a=%0A"),
            ("label", "label=a=%ff"),
            ("createdAfter", "createdAfter=yesterday"),
            ("createdBefore", "createdBefore="),
            ("activeAfter", "activeAfter=2026-02-30T00:00:00Z"),
            ("activeBefore", "activeBefore=99999999999999999999"),
            ("limit", "limit=0"),
            ("limit", "limit=1001"),
            ("owner", "owner=-a"),
        ] {
            bench.plain("GET", &format!("{list}?{query}")).await.invalid(field);
        }
        let many: String = (0..33).map(|n| format!("&label=l{n}=x")).collect();
        bench.plain("GET", &format!("{list}?limit=5{many}")).await.invalid("label");
    }
}
