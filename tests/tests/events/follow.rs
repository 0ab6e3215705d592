//! A life as its events tell it, read and followed, also over `kill -9`.

use crate::rig::{SOON, events, kinds, make, start, stop, until};
use client::{Client, EventQuery, Followed};
use e2e::{Server, eventually};
use serde_json::{Value, json};
use types::Event;

#[tokio::test]
async fn a_life_is_told_with_its_reasons() {
    let server = Server::start().await;
    make(&server, "a", json!({"entrypoint": ["sh", "-c", "exit 7"]})).await;
    start(&server, "a").await;
    let stopped = until(&server, "a", "sandbox.stopped").await;
    assert_eq!(stopped["data"]["cause"], "exited");
    assert_eq!((&stopped["data"]["exitCode"], &stopped["generation"]), (&json!(7), &json!(1)));
    let body = json!({"envVars": {"KEY": "no-business-of-yours"}, "idleLimitMs": 77000});
    server.json("PATCH", "/v1/sandboxes/a", body).await.expect(200);
    make(&server, "b", json!({"entrypoint": ["/no/such/program"]})).await;
    server.post("/v1/sandboxes/b/start", Value::Null).await.expect(503);
    server.exec("c", &["true"]).await;
    stop(&server, "c", "lunch").await;
    for id in ["a", "b", "c"] {
        server.delete(&format!("/v1/sandboxes/{id}")).await.expect(204);
    }
    let of = |id: &'static str| {
        let server = &server;
        async move { events(server, Some(id)).await }
    };
    let (a, b, c) = (of("a").await, of("b").await, of("c").await);
    let life = ["sandbox.created", "sandbox.started", "sandbox.stopped", "sandbox.destroyed"];
    assert_eq!(kinds(&b), life);
    assert_eq!(kinds(&c), life);
    assert_eq!(kinds(&a), [life[0], life[1], life[2], "sandbox.updated", life[3]]);
    assert_eq!(a[3]["data"]["fields"], json!(["idleLimitMs", "envVars"]));
    assert_eq!(b[2]["data"]["cause"], "failed");
    assert_eq!(c[2]["data"]["reason"], "lunch");
    assert!(!json!(a).to_string().contains("no-business"));
    // Every stop of the history is an event, and the other way round.
    let stops = server.get("/v1/sandboxes/c/stops").await.expect(200);
    assert_eq!(stops[0]["stoppedAt"], c[2]["data"]["stoppedAt"]);
}

/// Follows until `count` events came.
async fn follow(server: &Server, after: i64, count: usize) -> Vec<Event> {
    let client = Client::new(&server.url, None, None).expect("a URL");
    let query = EventQuery { after: Some(after), ..EventQuery::default() };
    let mut stream = client.follow_events(&query).await.expect("a stream");
    let mut all = Vec::new();
    let following = async {
        while all.len() < count {
            match stream.next().await.expect("it goes on") {
                Followed::Event(event) => all.push(*event),
                Followed::Ready(at) => assert_eq!(at, after),
                Followed::Missed => panic!("nothing was swept"),
            }
        }
    };
    tokio::time::timeout(SOON, following).await.expect("they come");
    all
}

#[tokio::test]
async fn a_follower_that_comes_again_after_kill_9_misses_nothing() {
    let mut server = Server::start().await;
    for round in 0..4 {
        make(&server, &format!("a{round}"), Value::Null).await;
        start(&server, &format!("a{round}")).await;
        // The last events are acknowledged, and at once the server is no more.
        server.kill();
        server.restart().await;
        stop(&server, &format!("a{round}"), "over").await;
    }
    let before = events(&server, None).await;
    let ids: Vec<i64> = before.iter().map(|e| e["id"].as_i64().expect("an id")).collect();
    assert_eq!(ids, (1..=12).collect::<Vec<_>>(), "{before:#?}");
    let followed = follow(&server, 5, 7).await;
    assert_eq!(json!(followed), json!(before[5..]));
}

#[tokio::test]
async fn the_command_line_shows_and_follows() {
    let server = Server::start().await;
    make(&server, "a", Value::Null).await;
    server.put("/v1/sandboxes/b?owner=ada", Value::Null).await.expect(201);
    let cli = |args: &[&str]| {
        let mut command = std::process::Command::new(e2e::binary());
        command.args(["events", "--url", &server.url]).args(args).env_remove("SANDKEEP_OWNER");
        command
    };
    let output = |args: &[&str]| {
        let output = cli(args).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let told = output(&[]);
    assert!(told.contains("sandbox.created\ta\timage=\"host\""), "{told}");
    assert_eq!(told.lines().count(), 1);
    let told = output(&["--all-owners"]);
    assert!(told.contains("\tlocal/a\t") && told.contains("\tada/b\t"), "{told}");
    assert_eq!(output(&["--all-owners", "--after", "1", "--json"]).lines().count(), 1);
    assert_eq!(output(&["--type", "sandbox.stopped"]), "");
    let wrong = cli(&["--type", "sandbox.eaten"]).output().expect("it starts");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("sandbox.eaten"));

    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("told");
    let out = std::fs::File::create(&file).expect("a file");
    let mut following =
        cli(&["a", "--follow", "--after", "0"]).stdout(out).spawn().expect("it starts");
    let text = || std::fs::read_to_string(&file).unwrap_or_default();
    eventually("it shows what was", SOON, || async { text().contains("created").then_some(()) })
        .await;
    start(&server, "a").await;
    eventually("it shows what comes", SOON, || async { text().contains("started").then_some(()) })
        .await;
    assert!(!text().contains("\tb\t"));
    following.kill().expect("it runs");
    following.wait().expect("it can be waited for");
}
