//! What these tests share: random numbers that repeat, parts of a server, states to wait for.

use e2e::{Server, eventually, read_instance};
use serde_json::{Value, json};
use std::time::Duration;

/// Generous: the machine may be busy.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Random numbers from a seed (xorshift64).
pub struct Random(u64);

impl Random {
    /// From `SANDKEEP_SEED`, else from the clock; printed either way.
    pub fn seeded(test: &str) -> Self {
        let clock = || {
            let since = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970");
            since.as_nanos() as u64
        };
        let given = std::env::var("SANDKEEP_SEED").ok();
        let seed = given.map_or_else(clock, |text| text.parse().expect("SANDKEEP_SEED: a number"));
        println!("{test}: SANDKEEP_SEED={seed}");
        Self(seed.max(1))
    }

    /// Another one, for another task.
    pub fn fork(&mut self) -> Self {
        Self(self.next().max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// One of `0..end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// SIGKILL to one process. One that is gone already is fine.
pub fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Whether a process is there and no zombie.
pub fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// The helper of a server, which makes instances; `None` where none was needed since the last
/// one died.
pub fn helper(server: &Server) -> Option<i32> {
    let pid = server.pid();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten() {
        let children = std::fs::read_to_string(entry.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            // The other child is the zygote of code's workers.
            let line = std::fs::read_to_string(format!("/proc/{child}/cmdline"));
            if line.is_ok_and(|line| line.starts_with("sandkeep-helper")) {
                return Some(child.parse().expect("a pid"));
            }
        }
    }
    None
}

/// A number of the file that the supervisor of `local`'s sandbox wrote.
pub fn of_instance(server: &Server, id: &str, key: &str) -> i32 {
    let file = read_instance(&server.data, &Server::object("local", id)).expect("it runs");
    file[key].as_i64().expect("a number") as i32
}

/// The record of `local`'s sandbox.
pub async fn record(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/sandboxes/{id}")).await.expect(200)["record"].clone()
}

/// The stops of `local`'s sandbox, newest first.
pub async fn stops(server: &Server, id: &str) -> Vec<Value> {
    let stops = server.get(&format!("/v1/sandboxes/{id}/stops")).await.expect(200);
    stops.as_array().expect("a list").clone()
}

/// Waits until its record says stopped.
pub async fn stopped(server: &Server, id: &str) -> Value {
    eventually("stopped", LIMIT, || async {
        let record = record(server, id).await;
        (record["state"] == "stopped").then_some(record)
    })
    .await
}

/// Waits until the command whose arguments contain `tag` has ended in the history.
pub async fn ended(server: &Server, id: &str, tag: &str) -> Value {
    eventually(tag, LIMIT, || async {
        let all = server.get(&format!("/v1/sandboxes/{id}/executions?limit=1000")).await;
        let all = all.expect(200);
        let mut all = all.as_array().expect("a list").iter();
        let found = all.find(|e| argv_has(e, tag))?;
        (found["status"] != "running").then(|| found.clone())
    })
    .await
}

/// Whether one of its arguments is the tag.
pub fn argv_has(execution: &Value, tag: &str) -> bool {
    execution["argv"].as_array().is_some_and(|argv| argv.iter().any(|a| a == tag))
}

/// A command that waits for `seconds`, writes its code into `/workspace/<tag>` and ends with it.
pub fn coded(tag: &str, code: i32, seconds: &str) -> Value {
    let script = "sleep $1; echo $2 > /workspace/$3; exit $2";
    json!({ "argv": ["sh", "-c", script, "sh", seconds, code.to_string(), tag] })
}

/// What a file of `local`'s workspace holds; `None` where there is none.
pub fn workspace_file(server: &Server, id: &str, name: &str) -> Option<String> {
    let object = Server::object("local", id);
    let path = server.data.join("sandboxes").join(object).join("workspace").join(name);
    std::fs::read_to_string(path).ok()
}

/// Nothing is left over, once what ends has ended.
pub async fn leaves_nothing(server: &Server) {
    eventually("no leaks", LIMIT, || async {
        let (clean, said) = server.leaks();
        if !clean {
            eprintln!("{said}");
        }
        clean.then_some(())
    })
    .await;
}

/// Starts a request in a task of its own, as a client that may be left without an answer.
pub fn aside(
    server: &Server,
    id: &str,
    body: Value,
) -> tokio::task::JoinHandle<Option<(u16, Value)>> {
    let (http, url) = (server.http.clone(), server.url.clone());
    let path = format!("{url}/v1/sandboxes/{id}/exec");
    tokio::spawn(async move {
        let request = http.post(path).header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await.ok()?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await.ok()?;
        Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    })
}

/// Waits until the history shows the command as running.
pub async fn running(server: &Server, id: &str, tag: &str) {
    eventually(tag, LIMIT, || async {
        let all = server.get(&format!("/v1/sandboxes/{id}/executions?limit=1000")).await;
        let all = all.expect(200);
        let mut all = all.as_array().expect("a list").iter();
        all.any(|e| argv_has(e, tag) && e["status"] == "running").then_some(())
    })
    .await;
}
