//! What the tests of commands share.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::{Answer, Server, eventually, processes};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The limit of waits for what comes by itself.
pub const SOON: Duration = Duration::from_secs(60);

/// A number of seconds that nobody else sleeps: tells the processes of one test from all others.
pub fn nap() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("1{:07}{count:03}", std::process::id())
}

/// Waits until as many processes as this have the text among their arguments.
pub async fn wait_processes(text: &str, count: usize) {
    eventually(&format!("{count} processes with {text}"), SOON, || async {
        (processes(text).len() == count).then_some(())
    })
    .await;
}

/// Sends a signal to a process of the machine.
pub fn signal(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, signal).expect("it runs");
}

/// Runs a command with these options; whatever the answer.
pub async fn run(server: &Server, id: &str, body: Value) -> Answer {
    server.post(&format!("/v1/sandboxes/{id}/exec"), body).await
}

/// Runs a shell script in it; its result.
pub async fn sh(server: &Server, id: &str, script: &str) -> Value {
    server.exec(id, &["sh", "-c", script]).await
}

/// The sandbox still does what it shall.
pub async fn assert_fine(server: &Server, id: &str) {
    let result = server.exec(id, &["echo", "fine"]).await;
    assert_eq!(result["stdout"], "fine\n", "{result}");
    assert_eq!(result["exitCode"], 0, "{result}");
}

/// The commands of a sandbox, newest first.
pub async fn history(server: &Server, id: &str) -> Vec<Value> {
    let all = server.get(&format!("/v1/sandboxes/{id}/executions?limit=1000")).await.expect(200);
    all.as_array().expect("a list").clone()
}

/// Waits until the history has as many commands as this and none of them runs; newest first. (A
/// command's row comes beside its answer, and so perhaps a little later.)
pub async fn settled(server: &Server, id: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} commands, all ended"), SOON, || async {
        let all = history(server, id).await;
        let ended = all.iter().all(|e| e["status"] != "running");
        (all.len() == count && ended).then_some(all)
    })
    .await
}

/// Waits until nothing is left over in the data directory.
pub async fn assert_no_leaks(server: &Server) {
    // What is being deleted in this moment is in the trash.
    let end = std::time::Instant::now() + SOON;
    loop {
        let (fine, said) = server.leaks();
        if fine {
            return;
        }
        assert!(std::time::Instant::now() < end, "{said}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The bytes of a stream of a result, or of the `data` of an event.
pub fn bytes(text: &Value, encoding: &Value) -> Vec<u8> {
    let text = text.as_str().expect("text");
    match encoding.as_str() {
        None => text.as_bytes().to_vec(),
        Some("base64") => STANDARD.decode(text).expect("base64"),
        Some(other) => panic!("encoding {other}"),
    }
}

/// The bytes as `stdin` takes them.
pub fn stdin(bytes: &[u8]) -> Value {
    json!({ "base64": STANDARD.encode(bytes) })
}

/// SHA-256 in hex.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Random bytes.
pub fn random(count: usize) -> Vec<u8> {
    use std::io::Read as _;
    let mut bytes = vec![0; count];
    let mut source = std::fs::File::open("/dev/urandom").expect("it is there");
    source.read_exact(&mut bytes).expect("it gives");
    bytes
}

/// Most memory that a process ever had, bytes.
pub fn peak_memory(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("a peak");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}

/// A connection that says exactly what it is told to say.
pub struct Raw(TcpStream);

impl Raw {
    /// Connects.
    pub async fn connect(server: &Server) -> Self {
        let address = server.url.strip_prefix("http://").expect("http");
        Self(TcpStream::connect(address).await.expect("it listens"))
    }

    /// Sends bytes.
    pub async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("it reads");
    }

    /// Sends bytes; false where nobody reads them any more.
    pub async fn try_write(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok()
    }

    /// Sends a request; `head` are more header lines, each with its end.
    pub async fn request(&mut self, method: &str, path: &str, head: &str, body: &str) {
        let host = if head.to_lowercase().contains("host:") { "" } else { "host: localhost\r\n" };
        let length = body.len();
        let text = format!(
            "{method} {path} HTTP/1.1\r\n{host}{head}content-length: {length}\r\n\r\n{body}"
        );
        self.write(text.as_bytes()).await;
    }

    /// Asks for a command in sandbox `id`, with events or without.
    pub async fn exec(&mut self, id: &str, body: &Value, events: bool) {
        let accept = if events { "accept: application/x-ndjson\r\n" } else { "" };
        let head = format!("content-type: application/json\r\n{accept}");
        let path = format!("/v1/sandboxes/{id}/exec");
        self.request("POST", &path, &head, &body.to_string()).await;
    }

    /// Reads at least one byte, at most `limit`; none at the end.
    pub async fn read(&mut self, limit: usize) -> Vec<u8> {
        let mut bytes = vec![0; limit];
        let n = self.0.read(&mut bytes).await.unwrap_or(0);
        bytes.truncate(n);
        bytes
    }

    /// Reads to the end of the connection.
    pub async fn rest(mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let _ = self.0.read_to_end(&mut all).await;
        all
    }
}

/// One request with its path as it is, on a connection of its own.
pub async fn raw(server: &Server, method: &str, path: &str, head: &str, body: &str) -> Answer {
    let mut connection = Raw::connect(server).await;
    let head = format!("connection: close\r\n{head}");
    connection.request(method, path, &head, body).await;
    answer_of(&connection.rest().await)
}

fn answer_of(all: &[u8]) -> Answer {
    let at = all.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&all[..at]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().and_then(|l| l.split(' ').nth(1)).and_then(|s| s.parse().ok());
    let headers = lines.filter_map(|l| l.split_once(": "));
    let headers = headers.map(|(n, v)| (n.to_lowercase(), v.to_owned())).collect();
    Answer { status: status.expect("a status"), headers, body: all[at + 4..].to_vec() }
}

/// The events of a command, one by one.
pub struct Events {
    answer: reqwest::Response,
    buffer: Vec<u8>,
    next_seq: u64,
}

impl Events {
    /// Starts a command; it must start.
    pub async fn of(server: &Server, id: &str, body: Value) -> Self {
        let request = server
            .http
            .post(format!("{}/v1/sandboxes/{id}/exec", server.url))
            .header("accept", "application/x-ndjson")
            .header("content-type", "application/json")
            .body(body.to_string());
        let answer = request.send().await.expect("the server answers");
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
        Self { answer, buffer: Vec::new(), next_seq: 0 }
    }

    /// The next event; `None` at the end, whatever kind of end. Numbers have no gap.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(at) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=at).collect();
                let event: Value = serde_json::from_slice(&line).expect("an event");
                assert_eq!(event["seq"], self.next_seq, "{event}");
                self.next_seq += 1;
                return Some(event);
            }
            let chunk = tokio::time::timeout(SOON, self.answer.chunk()).await;
            match chunk.expect("the stream says something") {
                Ok(Some(bytes)) => self.buffer.extend_from_slice(&bytes),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// The next one that is no ping; there must be one.
    pub async fn telling(&mut self) -> Value {
        loop {
            let event = self.next().await.expect("an event");
            if event["type"] != "ping" {
                return event;
            }
        }
    }

    /// All that come yet, pings left out.
    pub async fn rest(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            if event["type"] != "ping" {
                all.push(event);
            }
        }
        all
    }
}

/// All bytes of one stream in events.
pub fn joined(events: &[Value], stream: &str) -> Vec<u8> {
    let ours = events.iter().filter(|e| e["type"] == stream);
    ours.flat_map(|e| bytes(&e["data"], &e["encoding"])).collect()
}
