//! kill -9 of the daemon at a hundred random points of a running workload.

use crate::common::*;
use e2e::Server;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

const KILLS: u32 = 100;
const WORKERS: u64 = 4;

/// What a client knows of one sandbox of its own.
#[derive(Default)]
struct Known {
    /// Acknowledged to be there; `None`: a request about it was not answered.
    there: Option<bool>,
    /// Stops that were acknowledged with a reason of its own while an instance ran.
    reasons: BTreeSet<String>,
}

/// A client that never dies and asks whichever daemon lives.
struct Worker {
    http: reqwest::Client,
    url: watch::Receiver<String>,
    data: std::path::PathBuf,
    random: Random,
    tags: Arc<AtomicU64>,
    unanswered: u32,
}

impl Worker {
    /// `None`: no answer came, and what became of it is not known.
    async fn once(&mut self, method: &str, path: &str, body: Value) -> Option<(u16, Value)> {
        let url = format!("{}/v1/sandboxes/{path}", *self.url.borrow_and_update());
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = self.http.request(method, url);
        if !body.is_null() {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(_) => {
                self.unanswered += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
                return None;
            }
        };
        let status = answer.status().as_u16();
        let Ok(bytes) = answer.bytes().await else {
            self.unanswered += 1;
            return None;
        };
        Some((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    /// Asks until somebody answers.
    async fn get(&mut self, path: &str) -> (u16, Value) {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(answer) = self.once("GET", path, Value::Null).await {
                return answer;
            }
            assert!(Instant::now() < end, "nobody answers");
        }
    }

    async fn exec(&mut self, id: &str) -> Option<bool> {
        let number = self.tags.fetch_add(1, Ordering::Relaxed);
        let (tag, code) = (format!("tag-{number}"), 1 + (number % 120) as i32);
        let seconds = ["0", "0.03", "0.15"][self.random.below(3) as usize];
        let path = format!("{id}/exec");
        match self.once("POST", &path, coded(&tag, code, seconds)).await {
            Some((200, result)) => assert_eq!(result["exitCode"], code, "{tag}: {result}"),
            // It says itself that nothing was done, or that it may have run.
            Some((409 | 503, error)) => {
                let code = error["code"].as_str().unwrap_or_default();
                let known = ["INSTANCE_STOPPED", "SANDBOX_DESTROYED", "INSTANCE_START_FAILED"];
                assert!(known.contains(&code) || code == "UNAVAILABLE", "{tag}: {error}");
                return None;
            }
            Some((status, error)) => panic!("{tag}: {status} {error}"),
            None => {
                self.true_end(id, &tag, code).await;
                return None;
            }
        }
        Some(true)
    }

    /// A command whose daemon was killed: it runs on, and its end is told truly, or it was
    /// never begun.
    async fn true_end(&mut self, id: &str, tag: &str, code: i32) {
        let end = Instant::now() + LIMIT;
        loop {
            let late = Instant::now() >= end;
            let (status, all) = self.get(&format!("{id}/executions?limit=1000")).await;
            let all = all.as_array().cloned().unwrap_or_default();
            let found = all.iter().find(|e| status == 200 && argv_has(e, tag));
            if late {
                let (_, stops) = self.get(&format!("{id}/stops")).await;
                let (_, info) = self.get(id).await;
                panic!("{tag} of {id} does not end: {found:?} {info} {stops}");
            }
            match found {
                Some(e) if e["status"] == "running" => {}
                Some(e) => {
                    assert_eq!((&e["status"], &e["exitCode"]), (&json!("exited"), &json!(code)));
                    return;
                }
                None => {
                    // Not begun, or not yet noted. What ran has left its file.
                    let object = Server::object("local", id);
                    let file = self.data.join("sandboxes").join(object).join("workspace").join(tag);
                    if !file.exists() && Instant::now() + LIMIT > end + Duration::from_millis(600) {
                        return;
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    async fn step(&mut self, id: &str, known: &mut Known) {
        match self.random.below(10) {
            0 => {
                let there = match self.once("PUT", id, json!({})).await {
                    Some((200 | 201, _)) => Some(true),
                    Some((status, error)) => {
                        assert_eq!((status, &error["code"]), (409, &json!("SANDBOX_DESTROYED")));
                        None
                    }
                    None => None,
                };
                known.there = there;
            }
            1 => {
                known.there = match self.once("DELETE", id, Value::Null).await {
                    Some((204, _)) => {
                        let (status, told) = self.get(id).await;
                        assert_eq!(status, 404, "deleted and there: {told}");
                        Some(false)
                    }
                    Some((status, error)) => panic!("delete: {status} {error}"),
                    None => None,
                };
            }
            2 | 3 => {
                let reason = format!("r{}", self.tags.fetch_add(1, Ordering::Relaxed));
                let (_, before) = self.get(id).await;
                let body = json!({ "reason": reason });
                let answer = self.once("POST", &format!("{id}/stop"), body).await;
                match answer {
                    Some((204, _)) => {
                        let (_, after) = self.get(id).await;
                        assert_ne!(after["record"]["state"], "running", "{after}");
                        // An earlier stop without an answer may have come first.
                        if before["record"]["state"] == "running"
                            && after["record"]["reason"] == reason
                        {
                            known.reasons.insert(reason);
                        }
                    }
                    Some((404, _)) => assert_ne!(known.there, Some(true), "{id} is lost"),
                    Some((status, error)) => panic!("stop: {status} {error}"),
                    None => {}
                }
            }
            _ => {
                known.there = match (self.exec(id).await, known.there) {
                    (Some(true), _) => Some(true),
                    (_, Some(true)) => Some(true),
                    _ => None,
                };
            }
        }
        if known.there == Some(true) {
            let (status, told) = self.get(id).await;
            assert_eq!(status, 200, "{id} was acknowledged and is lost: {told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn heavy_a_hundred_kills_of_the_daemon() {
    let mut random = Random::seeded("a hundred kills");
    let mut server = Server::start().await;
    let (tell, url) = watch::channel(server.url.clone());
    let stop = Arc::new(AtomicBool::new(false));
    let tags = Arc::new(AtomicU64::new(0));
    // One that lives through all of it, with one command.
    server.exec("rock", &["true"]).await;
    let script =
        "while ! test -e /workspace/go; do sleep 0.1; done; echo 77 > /workspace/rock; exit 77";
    let _whole = aside(&server, "rock", json!({ "argv": ["sh", "-c", script, "whole"] }));
    running(&server, "rock", "whole").await;
    let (init, first) = (of_instance(&server, "rock", "pid"), record(&server, "rock").await);
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let mut worker = Worker {
                http: e2e::http(),
                url: url.clone(),
                data: server.data.clone(),
                random: random.fork(),
                tags: tags.clone(),
                unanswered: 0,
            };
            let stop = stop.clone();
            tokio::spawn(async move {
                let names = [format!("w{number}-a"), format!("w{number}-b")];
                let mut known = [Known::default(), Known::default()];
                while !stop.load(Ordering::Relaxed) {
                    if worker.random.below(5) == 0 {
                        // One that all share, and nobody stops.
                        worker.exec("shared").await;
                        continue;
                    }
                    let which = worker.random.below(2) as usize;
                    worker.step(&names[which], &mut known[which]).await;
                }
                (names, known, worker.unanswered)
            })
        })
        .collect();
    let begun = Instant::now();
    let mut kills = 0;
    while kills < KILLS && begun.elapsed() < Duration::from_secs(100) {
        tokio::time::sleep(Duration::from_millis(random.below(250))).await;
        server.kill();
        kills += 1;
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(server.restart());
        });
        tell.send_replace(server.url.clone());
        assert_eq!(of_instance(&server, "rock", "pid"), init, "kill {kills}");
        let now = record(&server, "rock").await;
        assert_eq!((&now["state"], &now["startedAt"]), (&json!("running"), &first["startedAt"]));
        if workers.iter().any(tokio::task::JoinHandle::is_finished) {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut unanswered = 0;
    let mut all = Vec::new();
    for worker in workers {
        let (names, known, lost) = worker.await.expect("a client's expectations hold");
        unanswered += lost;
        all.extend(names.into_iter().zip(known));
    }
    println!("{kills} kills in {:?}, {unanswered} requests without an answer", begun.elapsed());
    assert_eq!(kills, KILLS, "the machine was too slow for all kills");
    assert!(unanswered > 20, "the kills did not meet the requests: {unanswered}");
    judge(&server, &all).await;
    server.exec("rock", &["touch", "/workspace/go"]).await;
    assert_eq!(ended(&server, "rock", "whole").await["exitCode"], 77);
    assert!(stops(&server, "rock").await.is_empty());
    for id in all.iter().map(|(id, _)| id.as_str()).chain(["rock", "shared"]) {
        server.delete(&format!("/v1/sandboxes/{id}")).await.expect(204);
    }
    leaves_nothing(&server).await;
}

/// What must be true at the end.
async fn judge(server: &Server, all: &[(String, Known)]) {
    let list = server.get("/v1/sandboxes?limit=1000").await.expect(200);
    let listed: BTreeSet<String> = list["sandboxes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|s| s["id"].as_str().expect("a name").to_owned())
        .collect();
    for (id, known) in all {
        if let Some(there) = known.there {
            assert_eq!(listed.contains(id), there, "{id}");
        }
        let stops = server.get(&format!("/v1/sandboxes/{id}/stops")).await;
        let stops = stops.json().as_array().cloned().unwrap_or_default();
        let generations: Vec<u64> =
            stops.iter().map(|s| s["generation"].as_u64().expect("a number")).collect();
        let latest = generations.first().copied().unwrap_or(0);
        // One row for each start, the newest first, without a gap or a double.
        assert_eq!(generations, (1..=latest).rev().collect::<Vec<_>>(), "{id}: {stops:?}");
        for reason in &known.reasons {
            let same = stops.iter().filter(|s| s["reason"] == *reason).count();
            assert_eq!(same, 1, "{id}: {reason}: {stops:?}");
        }
        for stop in &stops {
            // Nothing but orders and failed starts ended them.
            let cause = stop["cause"].as_str().unwrap_or_default();
            assert!(["stopped", "destroyed", "failed", "unknown"].contains(&cause), "{id}: {stop}");
        }
        histories(server, id).await;
    }
    histories(server, "shared").await;
    assert!(stops(server, "shared").await.is_empty(), "nobody stopped it");
}

/// A code in the history is the command's own, and what ran is in the history.
async fn histories(server: &Server, id: &str) {
    let answer = server.get(&format!("/v1/sandboxes/{id}/executions?limit=1000")).await;
    let all = answer.json().as_array().cloned().unwrap_or_default();
    for execution in all.iter().filter(|e| e["status"] == "exited") {
        let argv = execution["argv"].as_array().expect("a list");
        let code = execution["exitCode"].to_string();
        assert_eq!(argv[5], code, "{id}: {execution}");
        let tag = argv[6].as_str().expect("text");
        assert_eq!(workspace_file(server, id, tag), Some(format!("{code}\n")), "{execution}");
    }
}
