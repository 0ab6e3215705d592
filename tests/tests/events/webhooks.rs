//! Webhooks: nothing is lost, whoever goes away; nobody is held up; and nothing private is reached.

use crate::rig::{SOON, events, make, start, stop};
use e2e::{Builder, Received, Receiver, Server, eventually};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::time::Duration;

const SECRET: &str = "a-secret-of-the-tests-0123";

/// A server with these webhooks, each `(name, url, more)`.
async fn server(directory: &tempfile::TempDir, webhooks: &[(&str, &str, &str)]) -> Server {
    configured(directory, webhooks).start().await
}

/// How to start it.
pub fn configured(directory: &tempfile::TempDir, webhooks: &[(&str, &str, &str)]) -> Builder {
    let file = directory.path().join("sandkeep.toml");
    let one = |(name, url, more): &(&str, &str, &str)| {
        format!("[[webhooks]]\nname = {name:?}\nurl = {url:?}\nsecret = {SECRET:?}\n{more}\n")
    };
    std::fs::write(&file, webhooks.iter().map(one).collect::<String>()).expect("a file");
    let file = file.display().to_string();
    Builder::default().args(&["--config", &file])
}

pub async fn state(server: &Server, name: &str) -> Value {
    let list = server.get("/v1/admin/webhooks").await.expect(200);
    let all = list["webhooks"].as_array().expect("a list").clone();
    all.into_iter().find(|w| w["name"] == name).unwrap_or_else(|| panic!("no {name}: {list}"))
}

/// Waits until all of these ids came; each delivery.
pub async fn until_all(receiver: &Receiver, wanted: &BTreeSet<i64>) -> Vec<Received> {
    eventually("all events arrive", SOON, || async {
        let all = receiver.all();
        let ids: BTreeSet<i64> = all.iter().map(Received::id).collect();
        wanted.is_subset(&ids).then_some(all)
    })
    .await
}

pub fn ids(events: &[Value]) -> BTreeSet<i64> {
    events.iter().map(|e| e["id"].as_i64().expect("an id")).collect()
}

/// HMAC-SHA256 as RFC 2104 writes it.
fn hmac(key: &[u8], message: &[u8]) -> String {
    let mut block = [0u8; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new().chain_update(block.map(|b| b ^ 0x36)).chain_update(message);
    let outer = Sha256::new().chain_update(block.map(|b| b ^ 0x5c));
    let digest = outer.chain_update(inner.finalize()).finalize();
    digest.iter().map(|b| format!("{b:02x}")).collect()
}

#[tokio::test]
async fn every_event_arrives_though_both_ends_die() {
    every_event_arrives(Duration::ZERO).await;
}

#[tokio::test]
async fn heavy_every_event_arrives_after_half_a_minute() {
    every_event_arrives(Duration::from_secs(30)).await;
}

/// The receiver is down so long, and more.
async fn every_event_arrives(down: Duration) {
    let directory = tempfile::tempdir().expect("a directory");
    let receiver = Receiver::new("204 No Content", Duration::ZERO).await;
    let address = receiver.address.to_string();
    let mut server =
        server(&directory, &[("one", &receiver.url("/hook?key=1"), "allow-private = true")]).await;
    make(&server, "first", Value::Null).await;
    let first = until_all(&receiver, &ids(&events(&server, None).await)).await;
    // The receiver is down for a while, and the server is killed meanwhile, twice.
    drop(receiver);
    for round in 0..3 {
        let id = format!("a{round}");
        make(&server, &id, Value::Null).await;
        start(&server, &id).await;
        stop(&server, &id, "over").await;
        if round < 2 {
            server.kill();
            server.restart().await;
        }
    }
    eventually("it is seen to fail", SOON, || async {
        let state = state(&server, "one").await;
        (state["attempts"].as_u64() > Some(0) && state["lastError"].is_string()).then_some(())
    })
    .await;
    tokio::time::sleep(down).await;
    let receiver = Receiver::at(&address, "200 OK", Duration::ZERO).await;
    server.delete("/v1/sandboxes/a0").await.expect(204);
    let all = events(&server, None).await;
    let late: BTreeSet<i64> = ids(&all).into_iter().filter(|id| *id > 1).collect();
    let second = until_all(&receiver, &late).await;

    let both: Vec<&Received> = first.iter().chain(&second).collect();
    for received in &both {
        assert_eq!(received.target, "/hook?key=1");
        let told = all.iter().find(|e| e["id"] == received.id()).expect("an event of the store");
        assert_eq!(received.event(), *told);
        assert_eq!(received.headers["sandkeep-event-type"], told["type"].as_str().expect("one"));
        let stamp = &received.headers["sandkeep-timestamp"];
        let message = [stamp.as_bytes(), b".", &received.body].concat();
        let signed = format!("sha256={}", hmac(SECRET.as_bytes(), &message));
        assert_eq!(received.headers["sandkeep-signature"], signed);
        let at: i64 = stamp.parse().expect("seconds");
        assert!((at - told["at"].as_i64().expect("ms") / 1000).abs() < 3600);
    }
    // In their order: what comes twice came at once after itself.
    let order: Vec<i64> = both.iter().map(|r| r.id()).collect();
    assert!(order.is_sorted(), "{order:?}");
    eventually("it knows that all is well", SOON, || async {
        let state = state(&server, "one").await;
        let well = state["behind"] == 0 && state["attempts"] == 0 && state["lastError"].is_null();
        well.then_some(())
    })
    .await;
    let talk = server.talk().join("\n");
    assert!(!talk.contains(SECRET) && !talk.contains("key=1"), "{talk}");
}

#[tokio::test]
async fn a_slow_endpoint_delays_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let slow = Receiver::new("200 OK", Duration::from_secs(3600)).await;
    let broken = Receiver::new("500 No", Duration::ZERO).await;
    let quick = Receiver::new("200 OK", Duration::ZERO).await;
    let private = "allow-private = true";
    let some = "allow-private = true\ntypes = [\"sandbox.destroyed\"]\nowner = \"ada\"";
    let some_of_ada = Receiver::new("200 OK", Duration::ZERO).await;
    let (s, b, q, a) = (slow.url("/"), broken.url("/"), quick.url("/"), some_of_ada.url("/"));
    let server = server(
        &directory,
        &[
            ("slow", &s, private),
            ("broken", &b, private),
            ("quick", &q, private),
            ("ada", &a, some),
        ],
    )
    .await;
    for n in 0..30 {
        let owner = ["local", "ada"][n % 2];
        server.put(&format!("/v1/sandboxes/a{n}?owner={owner}"), Value::Null).await.expect(201);
        server.delete(&format!("/v1/sandboxes/a{n}?owner={owner}")).await.expect(204);
    }
    let received = until_all(&quick, &(1..=60).collect()).await;
    assert_eq!(received.iter().map(Received::id).collect::<Vec<_>>(), (1..=60).collect::<Vec<_>>());
    let wanted: Vec<i64> = (0..60).filter(|n| n % 4 == 3).map(|n| n + 1).collect();
    let received = until_all(&some_of_ada, &wanted.iter().copied().collect()).await;
    assert_eq!(received.iter().map(Received::id).collect::<Vec<_>>(), wanted);
    assert_eq!(slow.all().len(), 0);
    // It tries the first one again and again, and goes on to no other before.
    assert!(broken.all().iter().all(|r| r.id() == 1));
    assert_eq!(
        state(&server, "broken").await["lastError"],
        "it answered 500 Internal Server Error"
    );
}

#[tokio::test]
async fn nothing_private_is_reached_unless_it_is_allowed() {
    let directory = tempfile::tempdir().expect("a directory");
    let inside = Receiver::new("200 OK", Duration::ZERO).await;
    let location = format!("302 Found\r\nLocation: {}", inside.url("/secret"));
    let outside = Receiver::new(&location, Duration::ZERO).await;
    let port = inside.address.port();
    let urls = [
        ("loopback", format!("http://127.0.0.1:{port}/")),
        ("name", format!("http://localhost:{port}/")),
        ("mapped", format!("http://[::ffff:127.0.0.1]:{port}/")),
        ("nat64", format!("http://[64:ff9b::7f00:1]:{port}/")),
        ("any", format!("http://0.0.0.0:{port}/")),
        ("short", format!("http://127.1:{port}/")),
        ("number", format!("http://2130706433:{port}/")),
        ("metadata", "http://169.254.169.254/latest".to_owned()),
        ("own", "http://10.0.0.1/".to_owned()),
    ];
    let mut all: Vec<(&str, &str, &str)> = urls.iter().map(|(n, u)| (*n, u.as_str(), "")).collect();
    let redirecting = outside.url("/");
    all.push(("redirect", &redirecting, "allow-private = true"));
    let server = server(&directory, &all).await;
    make(&server, "a", Value::Null).await;
    for (name, _, _) in &all {
        let why = eventually(&format!("{name} fails"), SOON, || async {
            state(&server, name).await["lastError"].as_str().map(str::to_owned)
        })
        .await;
        let expected = match *name {
            "redirect" => why == "it answered 302 Found",
            _ => why.contains("no public address"),
        };
        assert!(expected, "{name}: {why}");
    }
    assert_eq!(inside.all().len(), 0);
    assert!(!outside.all().is_empty());
}

#[tokio::test]
async fn events_are_sent_again_on_demand() {
    let directory = tempfile::tempdir().expect("a directory");
    let receiver = Receiver::new("200 OK", Duration::ZERO).await;
    let server = server(&directory, &[("one", &receiver.url("/"), "allow-private = true")]).await;
    for n in 0..5 {
        make(&server, &format!("a{n}"), Value::Null).await;
    }
    until_all(&receiver, &(1..=5).collect()).await;
    let redeliver = |body: Value| server.post("/v1/admin/webhooks/redeliver", body);
    let told = redeliver(json!({"name": "one", "event": 2})).await.expect(200);
    assert_eq!(told, json!({"delivered": true, "error": null}));
    let order = || receiver.all().iter().map(Received::id).collect::<Vec<_>>();
    assert_eq!(order(), [1, 2, 3, 4, 5, 2]);
    let output = std::process::Command::new(e2e::binary())
        .args(["webhooks", "redeliver", "one", "--after", "2", "--url", &server.url])
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    eventually("they come again, in order", SOON, || async {
        (order() == [1, 2, 3, 4, 5, 2, 3, 4, 5]).then_some(())
    })
    .await;
    for (body, field) in [
        (json!({"name": "two", "event": 1}), "name"),
        (json!({"name": "one"}), "event"),
        (json!({"name": "one", "event": 1, "after": 1}), "event"),
        (json!({"name": "one", "event": 99}), "event"),
        (json!({"name": "one", "event": -5}), "event"),
        (json!({"name": "one", "after": 99}), "after"),
        (json!({"name": "one", "after": -1}), "after"),
    ] {
        let error = redeliver(body).await.expect_error(400, "VALIDATION_FAILED");
        assert_eq!(error["context"]["field"], field, "{error}");
    }
    let listed = std::process::Command::new(e2e::binary())
        .args(["webhooks", "ls", "--url", &server.url])
        .output()
        .expect("it starts");
    let listed = String::from_utf8(listed.stdout).expect("text");
    assert!(listed.starts_with("one\t"), "{listed}");
}

#[tokio::test]
async fn a_configuration_that_cannot_work_is_refused_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let secret = format!("secret = {SECRET:?}\n");
    for (text, said) in [
        ("[[webhooks]]\nurl = \"https://a.example/\"\n".to_owned(), "secret"),
        (format!("[[webhooks]]\nurl = \"ftp://a.example/\"\n{secret}"), "https://"),
        (format!("[[webhooks]]\nurl = \"https://a:b@a.example/\"\n{secret}"), "password"),
        ("[[webhooks]]\nurl = \"https://a.example/\"\nsecret = \"short\"\n".to_owned(), "16 bytes"),
        (format!("[[webhooks]]\nurl = \"https://a.example/\"\n{secret}types = [\"x\"]\n"), "\"x\""),
        (format!("[[webhooks]]\nurl = \"https://a.example/\"\n{secret}eggs = 1\n"), "eggs"),
        (format!("[[webhooks]]\nurl = \"https://a.example/\"\n{secret}").repeat(2), "two webhooks"),
        (
            "[[webhooks]]\nurl = \"https://a.example/\"\nsecret-file = \"/no/such\"\n".to_owned(),
            "/no/such",
        ),
    ] {
        let file = directory.path().join("sandkeep.toml");
        std::fs::write(&file, &text).expect("a file");
        let output = std::process::Command::new(e2e::binary())
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&file)
            .arg("--data")
            .arg(directory.path().join("data"))
            .output()
            .expect("it starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{text}\n{told}");
        assert!(told.contains(said) && !told.contains(SECRET), "{said}: {told}");
    }
}
