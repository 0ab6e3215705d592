//! A server that runs as an ordinary user: less, and honest about it.

use crate::common::*;
use e2e::{Builder, Server, binary, eventually, read_instance};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const USER: u32 = 65_531;

/// A directory of this user's with the program in it.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("sandkeep-").tempdir().expect("a directory");
        std::fs::copy(binary(), dir.path().join("sandkeep")).expect("copied");
        std::fs::create_dir(dir.path().join("data")).expect("made");
        for (name, mode) in [("", 0o755), ("sandkeep", 0o755), ("data", 0o700)] {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(dir.path().join(name), mode).expect("chmod");
        }
        // The program is this user's own, too: what is inside must not be able to write it.
        for name in ["data", "sandkeep"] {
            let path = dir.path().join(name);
            std::os::unix::fs::chown(path, Some(USER), Some(USER)).expect("chown");
        }
        Self(dir)
    }

    fn program(&self) -> PathBuf {
        self.0.path().join("sandkeep")
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    async fn serve(&self) -> Server {
        let server = Builder::default().user(USER, &self.program(), &self.data());
        server.env("HOME", "/nonexistent").start().await
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(self.program());
        command.args(args).uid(USER).gid(USER).current_dir("/");
        command.output().expect("the program starts")
    }
}

fn init(data: &Path, id: &str) -> Value {
    read_instance(data, &Server::object("local", id)).expect("it runs")["pid"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_stops_and_is_adopted() {
    let home = Home::new();
    let mut server = home.serve().await;
    let owner = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    assert!(owner.contains(&format!("Uid:\t{USER}")), "{owner}");
    assert_eq!(
        sh(&server, "a", "id -u; echo kept > /workspace/f; cat /workspace/f").await,
        "0\nkept"
    );
    let result = server.exec("a", &["sh", "-c", "exit 9"]).await;
    assert_eq!(result["exitCode"], 9);
    // Contained all the same.
    let status = sh(&server, "a", "cat /proc/self/status; cat /etc/shadow 2>/dev/null").await;
    for line in ["CapEff:\t00000000a80425fb", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{status}");
    }
    assert_eq!(
        sh(
            &server,
            "a",
            "ls -A /root /home | grep -v ':$'; ls /usr/local/etc /usr/etc 2>/dev/null | grep npmrc"
        )
        .await,
        ""
    );
    hunt_our_programs(&server, &home.program()).await;
    // kill -9, a command in flight, adoption.
    let before = server.get("/sandboxes/a").await.expect(200);
    let pid = init(&home.data(), "a");
    let (http, url) = (server.http.clone(), format!("{}/v1/sandboxes/a/exec", server.url));
    let body = json!({ "argv": ["sh", "-c", "sleep 2; exit 33", "flight"] }).to_string();
    let flight = tokio::spawn(async move {
        let request = http.post(url).header("content-type", "application/json").body(body);
        request.send().await.is_ok()
    });
    let history = "/v1/sandboxes/a/executions";
    let of_flight = |all: Value| {
        let all = all.as_array().expect("a list").clone();
        all.into_iter()
            .find(|e| e["argv"].as_array().is_some_and(|a| a.iter().any(|a| a == "flight")))
    };
    eventually("in flight", LIMIT, || async { of_flight(server.get(history).await.expect(200)) })
        .await;
    server.kill();
    assert!(!flight.await.expect("a task"));
    server.restart().await;
    let after = server.get("/sandboxes/a").await.expect(200);
    assert_eq!((&after["state"], &after["startedAt"]), (&json!("running"), &before["startedAt"]));
    assert_eq!(init(&home.data(), "a"), pid);
    let end = eventually("its end", LIMIT, || async {
        let found = of_flight(server.get(history).await.expect(200))?;
        (found["status"] != "running").then_some(found)
    })
    .await;
    assert_eq!((&end["status"], &end["exitCode"]), (&json!("exited"), &json!(33)), "{end}");
    // Stop, record, and on.
    server.post("/v1/sandboxes/a/stop", json!({ "reason": "enough" })).await.expect(204);
    let record = server.get("/sandboxes/a").await.expect(200);
    assert_eq!((&record["state"], &record["reason"]), (&json!("stopped"), &json!("enough")));
    assert_eq!(sh(&server, "a", "cat /workspace/f").await, "kept");
    let output = home.run(&["--url", &server.url, "run", "b", "--", "echo", "hi"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hi\n", "{output:?}");
    for id in ["a", "b"] {
        server.delete(&format!("/v1/sandboxes/{id}")).await.expect(204);
    }
    eventually("no leaks", LIMIT, || async { server.leaks().0.then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_cannot_do_is_told_and_refused() {
    let home = Home::new();
    let server = home.serve().await;
    for (field, value) in [("memoryMib", json!(100)), ("pids", json!(50)), ("vcpu", json!(0.5))] {
        let mut body = json!({});
        body[field] = value;
        let error =
            server.put("/v1/sandboxes/a", body.clone()).await.expect_error(422, "NOT_SUPPORTED");
        assert_eq!(error["context"]["field"], field, "{error}");
        server.get("/v1/sandboxes/a").await.expect(404);
        server.put("/v1/sandboxes/there", json!({})).await;
        let patched = server.json("PATCH", "/v1/sandboxes/there", body).await;
        patched.expect_error(422, "NOT_SUPPORTED");
    }
    server.exec("there", &["true"]).await;
    let body = json!({ "argv": ["true"], "user": "1000" });
    let refused = server.post("/v1/sandboxes/there/exec", body).await;
    refused.expect_error(422, "NOT_SUPPORTED");
    let data = home.data();
    let data = data.to_str().expect("text");
    let doctor = home.run(&["doctor", "--data", data]);
    let told = String::from_utf8_lossy(&[doctor.stdout, doctor.stderr].concat()).into_owned();
    for word in ["an ordinary user", "limits", "other users"] {
        assert!(told.contains(word), "doctor does not tell of {word}: {told}");
    }
    let shown = home.run(&["--url", &server.url, "inspect", "there"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("not enforced"), "inspect shows limits as if they held: {shown}");
}
