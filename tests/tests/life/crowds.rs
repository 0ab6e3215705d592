//! Many at once.

use crate::rig::{SOON, stops};
use e2e::{Builder, Server, eventually};
use futures::StreamExt as _;
use serde_json::{Value, json};

#[tokio::test]
async fn heavy_a_thousand_overdue_alarms_all_fire() {
    let mut server = Server::start().await;
    let puts = (0..1000).map(|n| {
        let (server, path) = (&server, format!("/v1/sandboxes/s{n:04}"));
        let body = json!({"idleTtlMs": 20_000, "envVars": {"A": "1"}});
        async move { server.put(&path, body).await.expect(201) }
    });
    futures::stream::iter(puts).buffer_unordered(64).collect::<Vec<_>>().await;
    server.kill();
    tokio::time::sleep(std::time::Duration::from_secs(21)).await;
    server.restart().await;
    // Others are served meanwhile.
    assert_eq!(server.exec("busy", &["echo", "x"]).await["stdout"], "x\n");
    for n in (0..1000).step_by(37).chain([999]) {
        eventually("it expires", SOON, || async {
            let info = server.get(&format!("/v1/sandboxes/s{n:04}")).await.expect(200);
            (info["envVars"] == json!({})).then_some(())
        })
        .await;
    }
    let list = server.get("/users/local/sandboxes").await.expect(200);
    assert_eq!(list.as_array().map(Vec::len), Some(1001), "an expired one is not listed");
}

#[tokio::test]
async fn only_one_of_many_puts_makes_it() {
    let server = Server::start().await;
    let puts = (0..20).map(|n| server.put("/v1/sandboxes/a", json!({"pids": 50 + n % 2})));
    let answers = futures::future::join_all(puts).await;
    let count = |status| answers.iter().filter(|a| a.status == status).count();
    assert_eq!((count(201), count(200), count(409)), (1, 9, 10));
    let pids = server.get("/v1/sandboxes/a").await.expect(200)["settings"]["pids"].clone();
    let made = answers.iter().find(|a| a.status == 201).expect("one");
    assert_eq!(made.json()["settings"]["pids"], pids);
}

#[tokio::test]
async fn heavy_stops_that_nobody_reads_hold_up_nothing() {
    use std::io::BufRead as _;
    use std::process::{Command, Stdio};
    let directory = tempfile::tempdir().expect("a directory");
    // Its standard output is a pipe that is never read.
    let mut child = Command::new(e2e::binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let stderr = std::io::BufReader::new(child.stderr.take().expect("piped"));
    let mut lines = stderr.lines().map_while(Result::ok);
    let mut told = Vec::new();
    let url = lines.find_map(|line| {
        let url = line.split_once("listening on ").map(|(_, url)| url.to_owned());
        told.push(line);
        url
    });
    let url = url.expect("it listens");
    // When sandboxes expire is said at the start.
    assert!(told.iter().any(|l| l.contains("expire") && l.contains("30d")), "{told:?}");
    let rest = std::thread::spawn(move || lines.for_each(drop));
    let http = e2e::http();
    let post = async |path: String, body: Value| {
        let request = http.post(format!("{url}/v1/sandboxes/{path}"));
        let request = request.header("content-type", "application/json").body(body.to_string());
        request.send().await.expect("it answers").status().as_u16()
    };
    // More than the pipe takes, and more than there are threads to wait for it.
    let reason = "\u{1F980}".repeat(200);
    let cycles = ["a", "b", "c", "d"].map(|id| {
        let (post, reason) = (&post, &reason);
        async move {
            for round in 0..160 {
                assert_eq!(post(format!("{id}/start"), json!({})).await, 200, "round {round}");
                let body = json!({"reason": reason});
                assert_eq!(post(format!("{id}/stop"), body).await, 204, "round {round}");
            }
        }
    });
    futures::future::join_all(cycles).await;
    let answer = http.get(format!("{url}/v1/sandboxes/a/stops")).send().await;
    let text = answer.expect("it answers").text().await.expect("a body");
    let stops: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(stops.as_array().map(Vec::len), Some(160));
    // Nor does it hold up its end.
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    let child = std::sync::Mutex::new(child);
    eventually("it ends", SOON, || async {
        child.lock().expect("whole").try_wait().expect("it can be waited for").map(|_| ())
    })
    .await;
    rest.join().expect("no panic");
}

#[tokio::test]
async fn names_that_differ_late_are_different_sandboxes() {
    let server = Builder::default().start().await;
    let long = "n".repeat(62);
    let names =
        [format!("{long}a"), format!("{long}b"), "Case".into(), "case".into(), "a.b".into()];
    for name in &names {
        let script = format!("echo {name} > /workspace/name");
        crate::rig::sh(&server, name, &script).await;
    }
    for name in &names {
        let result = server.exec(name, &["cat", "/workspace/name"]).await;
        assert_eq!(result["stdout"], format!("{name}\n"));
    }
    server.delete(&format!("/v1/sandboxes/{}", names[0])).await.expect(204);
    server.delete("/v1/sandboxes/Case").await.expect(204);
    for name in [&names[1], &names[3], &names[4]] {
        let result = server.exec(name, &["cat", "/workspace/name"]).await;
        assert_eq!(result["stdout"], format!("{name}\n"), "another's delete took it");
        assert!(stops(&server, name).await.is_empty());
    }
}
