//! `cargo xtask try`: the main job over the real API, each step shown with its true answer.

mod code;
mod curl;
mod server;

use crate::{setup, sh};
use anyhow::ensure;
use curl::{Answer, Curl};
use serde_json::{Value, json};
use server::Server;
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for what happens by itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// Builds (unless there is a `binary`), does it all, and cleans up also where a step fails.
pub fn run(binary: Option<PathBuf>) -> anyhow::Result<()> {
    setup::run(setup::Wanted::default())?;
    let binary = match binary {
        Some(binary) => std::path::absolute(binary)?,
        None => sh::sandkeep(false)?,
    };
    let mut server = Server::new(binary)?;
    let told = story(&mut server);
    let cleaned = server.clean_up();
    told?;
    cleaned?;
    println!("\nAll {} answers were as they should be.", server.answers());
    Ok(())
}

fn story(server: &mut Server) -> anyhow::Result<()> {
    title("A server on a fresh data directory");
    server.start()?;
    let curl = server.curl();
    two_sandboxes(&curl)?;
    a_stop(&curl)?;
    idle(&curl)?;
    killed(&curl, server)?;
    code::install(server)?;
    code::survives(&curl, server)?;
    code::shares(&curl)?;
    the_end(&curl)
}

fn two_sandboxes(curl: &Curl) -> anyhow::Result<()> {
    title("ada runs a command in `notes`: it comes into being, and its container starts");
    let uname = json!({"argv": ["uname", "-s"]});
    curl.post("/users/ada/sandboxes/notes", &uname)?
        .is(200, &json!({"stdout": "Linux\n", "stderr": "", "exitCode": 0}))?;
    let write = json!({"argv": ["sh", "-c", "echo milk > list; wc -c list"]});
    curl.post("/users/ada/sandboxes/notes", &write)?
        .is(200, &json!({"stdout": "5 list\n", "exitCode": 0}))?;

    title("A second one. Codes are true, and standard error is its own stream");
    let fail = json!({"argv": ["sh", "-c", "echo red >&2; exit 3"]});
    curl.post("/users/ada/sandboxes/tests", &fail)?
        .is(200, &json!({"stdout": "", "stderr": "red\n", "exitCode": 3}))?;

    title("What ada has; asking starts nothing and prolongs nothing");
    list(curl, &[("notes", true), ("tests", true)])
}

fn a_stop(curl: &Curl) -> anyhow::Result<()> {
    title("One is stopped. It stays in the list, and its record says when and why");
    curl.send("POST", "/v1/sandboxes/notes/stop?owner=ada", Some(&json!({"reason": "lunch"})))?
        .is(204, &Value::Null)?;
    list(curl, &[("notes", false), ("tests", true)])?;
    curl.get("/users/ada/sandboxes/notes")?
        .is(200, &json!({"state": "stopped", "reason": "lunch", "cause": "stopped"}))?;

    title("The next command starts it again. /workspace outlived the stop");
    let read = json!({"argv": ["cat", "list"]});
    curl.post("/users/ada/sandboxes/notes", &read)?
        .is(200, &json!({"stdout": "milk\n", "exitCode": 0}))
}

fn idle(curl: &Curl) -> anyhow::Result<()> {
    title("With a short idle limit it stops by itself");
    curl.send("PATCH", "/v1/sandboxes/notes?owner=ada", Some(&json!({"idleLimitMs": 300})))?
        .is(200, &json!({"id": "notes", "settings": {"idleLimitMs": 300}}))?;
    until(|| stopped(&curl.quietly("/users/ada/sandboxes/notes")?))?;
    curl.get("/users/ada/sandboxes/notes")?
        .is(200, &json!({"state": "stopped", "reason": "idle", "exitCode": null}))
}

fn killed(curl: &Curl, server: &mut Server) -> anyhow::Result<()> {
    title("kill -9 of the server while a command runs");
    let before = curl.quietly("/users/ada/sandboxes/tests")?;
    let slow = json!({"argv": ["sh", "-c", "sleep 1; echo late > report; exit 7"]});
    let mut waiting = curl.begin("/users/ada/sandboxes/tests", &slow)?;
    let history = "/v1/sandboxes/tests/executions?owner=ada&limit=1";
    until(|| Ok(curl.quietly(history)?.body[0]["status"] == "running"))?;
    server.kill()?;
    waiting.lost()?;

    title("Restarted, it adopts the instance: same start, no stop");
    server.start()?;
    list(curl, &[("notes", false), ("tests", true)])?;
    let started = before.body["startedAt"].clone();
    curl.get("/users/ada/sandboxes/tests")?
        .is(200, &json!({"state": "running", "startedAt": started, "starts": 1}))?;

    title("The command ran on meanwhile, and its exit code is known");
    until(|| Ok(curl.quietly(history)?.body[0]["status"] != "running"))?;
    curl.get(history)?.is(200, &json!([{"status": "exited", "exitCode": 7}]))?;
    let report = json!({"argv": ["cat", "report"]});
    curl.post("/users/ada/sandboxes/tests", &report)?
        .is(200, &json!({"stdout": "late\n", "exitCode": 0}))
}

fn the_end(curl: &Curl) -> anyhow::Result<()> {
    title("Destroyed and removed. The stops stay readable, newest first");
    for name in ["notes", "tests"] {
        curl.send("DELETE", &format!("/users/ada/sandboxes/{name}"), None)?
            .is(204, &Value::Null)?;
    }
    curl.get("/users/ada/sandboxes/notes")?.is(404, &json!({"code": "SANDBOX_NOT_FOUND"}))?;
    curl.get("/v1/sandboxes/notes/stops?owner=ada")?
        .is(200, &json!([{"cause": "destroyed"}, {"cause": "idle"}, {"reason": "lunch"}]))?;
    list(curl, &[])
}

/// The owner's list is exactly this.
fn list(curl: &Curl, sandboxes: &[(&str, bool)]) -> anyhow::Result<()> {
    let expected: Vec<Value> = sandboxes
        .iter()
        .map(|(session, running)| json!({"session": session, "running": running}))
        .collect();
    curl.get("/users/ada/sandboxes")?.is(200, &Value::Array(expected))
}

fn stopped(answer: &Answer) -> anyhow::Result<bool> {
    Ok(answer.body["state"] == "stopped")
}

/// Waits for what happens by itself.
fn until(mut holds: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let start = std::time::Instant::now();
    while !holds()? {
        ensure!(start.elapsed() < PATIENCE, "nothing of the kind within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(30));
    }
    Ok(())
}

fn title(text: &str) {
    println!("\n# {text}");
}
