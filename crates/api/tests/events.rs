//! Events over HTTP: pages, and the stream that goes on with what comes.

mod common;

use common::Bench;
use common::wire::{Server, until};
use hyper::StatusCode;
use tokio::io::AsyncWriteExt;

async fn make(bench: &Bench, owner: &str, id: &str) {
    let path = format!("/v1/sandboxes/{id}?owner={owner}");
    assert_eq!(bench.plain("PUT", &path).await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn pages_are_of_one_owner_and_of_all_for_the_administrator() {
    let bench = Bench::new().await;
    for n in 0..5 {
        make(&bench, "ada", &format!("a{n}")).await;
        make(&bench, "bob", &format!("b{n}")).await;
    }
    let page = bench.plain("GET", "/v1/events?owner=ada&limit=3").await.json();
    assert_eq!(page["events"].as_array().unwrap().len(), 3);
    assert_eq!((&page["more"], &page["missed"]), (&true.into(), &false.into()));
    let first = &page["events"][0];
    let object = types::SandboxName::new("ada".parse().unwrap(), "a0".parse().unwrap());
    assert_eq!(first["id"], 1);
    assert_eq!(first["type"], "sandbox.created");
    assert_eq!((&first["owner"], &first["sandbox"]), (&"ada".into(), &"a0".into()));
    assert_eq!(first["object"], object.object_id().to_string());
    assert_eq!(first["data"]["image"], "host");
    let next = page["nextAfter"].as_i64().unwrap();
    let page = bench.plain("GET", &format!("/v1/events?owner=ada&after={next}")).await.json();
    let ids: Vec<_> = page["events"].as_array().unwrap().iter().map(|e| &e["sandbox"]).collect();
    assert_eq!(ids, ["a3", "a4"]);
    assert_eq!((&page["nextAfter"], &page["more"]), (&10.into(), &false.into()));

    let count = |path: &'static str| {
        let bench = &bench;
        async move { bench.plain("GET", path).await.json()["events"].as_array().unwrap().len() }
    };
    assert_eq!(count("/v1/events").await, 0);
    assert_eq!(count("/v1/admin/events").await, 10);
    assert_eq!(count("/v1/admin/events?owner=bob").await, 5);
    assert_eq!(count("/v1/admin/events?owner=bob&sandbox=b2").await, 1);
    assert_eq!(count("/v1/events?owner=ada&sandbox=b2").await, 0);
    assert_eq!(count("/v1/events?owner=ada&type=sandbox.created").await, 5);
    assert_eq!(count("/v1/events?owner=ada&type=sandbox.stopped,quota.refused").await, 0);
    let page = bench.plain("GET", "/v1/events?after=11").await.json();
    assert_eq!(page["missed"], true);
}

#[tokio::test]
async fn wrong_parameters_are_named() {
    let bench = Bench::new().await;
    for (query, field) in [
        ("after=x", "after"),
        ("after=-1", "after"),
        ("after=", "after"),
        ("after=99999999999999999999", "after"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("type=sandbox.eaten", "type"),
        ("type=", "type"),
        ("sandbox=-a", "sandbox"),
    ] {
        for path in ["/v1/events", "/v1/admin/events"] {
            bench.plain("GET", &format!("{path}?owner=ada&{query}")).await.invalid(field);
        }
    }
    bench.plain("GET", "/v1/admin/events?sandbox=a").await.invalid("sandbox");
    bench.plain("GET", "/v1/admin/events?owner=a%2Fb").await.invalid("owner");
    let stream = |header: &'static str, value: &'static str, path: &'static str| {
        let request = common::request("GET", path).header("accept", "text/event-stream");
        bench.send(request.header(header, value).body(axum::body::Body::empty()).unwrap())
    };
    stream("last-event-id", "x", "/v1/events").await.invalid("Last-Event-ID");
    stream("x", "x", "/v1/events?limit=5").await.invalid("limit");
}

fn follow(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{headers}\r\n")
}

/// The ids of the events in a stream.
fn ids(text: &str) -> Vec<i64> {
    let blocks = text.split("\n\n").filter(|b| b.contains("event: sandbox."));
    let id = |block: &str| block.lines().find_map(|l| l.strip_prefix("id: ")?.parse().ok());
    blocks.filter_map(id).collect()
}

#[tokio::test]
async fn a_stream_catches_up_and_goes_on_without_loss_or_repetition() {
    let server = Server::new(|_| {}).await;
    for n in 0..30 {
        make(&server.bench, "local", &format!("before{n}")).await;
    }
    let mut stream = server.connect().await;
    stream.write_all(follow("/v1/events?after=10", "").as_bytes()).await.unwrap();
    // While it catches up, and after.
    for n in 0..300 {
        make(&server.bench, "local", &format!("while{n}")).await;
    }
    let mut text = until(&mut stream, "\"sandbox\":\"while299\"").await;
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    assert!(text.contains("event: ready\nid: 10\ndata: {\"after\":10}\n\n"), "{text}");
    make(&server.bench, "bob", "other").await;
    make(&server.bench, "local", "last").await;
    text += &until(&mut stream, "\"sandbox\":\"last\"").await;
    // The one between is another owner's.
    let expected: Vec<i64> = (11..=330).chain([332]).collect();
    assert_eq!(ids(&text), expected);

    // A client that lost its connection goes on where it was, whatever its URL says.
    let mut stream = server.connect().await;
    let again = follow("/v1/events?after=10", "Last-Event-ID: 329\r\n");
    stream.write_all(again.as_bytes()).await.unwrap();
    let text = until(&mut stream, "\"sandbox\":\"last\"").await;
    assert_eq!(ids(&text), [330, 332]);
}

#[tokio::test]
async fn a_stream_that_names_nothing_begins_now() {
    let server = Server::new(|_| {}).await;
    make(&server.bench, "local", "old").await;
    let mut stream = server.connect().await;
    stream.write_all(follow("/v1/admin/events", "").as_bytes()).await.unwrap();
    let mut text = until(&mut stream, "event: ready").await;
    make(&server.bench, "ada", "new").await;
    text += &until(&mut stream, "\"sandbox\":\"new\"").await;
    assert_eq!(ids(&text), [2]);
    // Of another server: told, and then what comes.
    let mut stream = server.connect().await;
    stream.write_all(follow("/v1/events?after=77", "").as_bytes()).await.unwrap();
    let mut text = until(&mut stream, "event: missed\ndata: {\"after\":2}\n\n").await;
    make(&server.bench, "local", "next").await;
    text += &until(&mut stream, "\"sandbox\":\"next\"").await;
    assert_eq!(ids(&text), [3]);
}

#[tokio::test]
async fn a_reader_that_reads_nothing_delays_nobody() {
    let server = Server::new(|_| {}).await;
    let mut slow = server.connect().await;
    slow.write_all(follow("/v1/events", "").as_bytes()).await.unwrap();
    until(&mut slow, "event: ready").await;
    let mut quick = server.connect().await;
    quick.write_all(follow("/v1/events", "").as_bytes()).await.unwrap();
    until(&mut quick, "event: ready").await;
    let long = "x".repeat(40);
    for n in 0..400 {
        make(&server.bench, "local", &format!("{long}{n}")).await;
    }
    let text = until(&mut quick, &format!("{long}399\"")).await;
    assert_eq!(ids(&text), (1..=400).collect::<Vec<_>>());
    let text = until(&mut slow, &format!("{long}399\"")).await;
    assert_eq!(ids(&text), (1..=400).collect::<Vec<_>>());
}
